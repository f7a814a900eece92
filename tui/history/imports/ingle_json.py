"""Imports chats that ingle exported as JSON."""

from __future__ import annotations

import msgspec

from ...chats.chat import Chat
from ..exports.export_json import VERSION, ChatFile
from .imported_chat import Json, MalformedChat

LAST_TIME = 250_000_000_000.0
"""A time in the year 9892; calendars cannot show later ones."""


def read_ingle_chat(entry: Json) -> Chat:
    """Return the chat with all its branches; raises `MalformedChat`."""
    try:
        file = msgspec.convert(entry, ChatFile)
    except msgspec.ValidationError as error:
        raise MalformedChat(str(error)) from error
    if file.version > VERSION:
        raise MalformedChat("it was written by a newer ingle")
    if len({message.id for message in file.messages}) < len(file.messages):
        raise MalformedChat("two of its messages have the same id")
    for message in file.messages:
        message.created = _time(message.created)
        if message.is_open:
            message.ending = "interrupted"
    try:
        chat = Chat.restore(
            file.settings, file.messages, file.chosen, id=file.id, created=_time(file.created)
        )
    except KeyError as error:
        raise MalformedChat(f"message {error} is missing before its children") from error
    for compaction in file.compactions:
        if compaction.after is not None and compaction.after not in chat.compactions:
            raise MalformedChat("a summary refers to one that is not before it")
        chat.add_compaction(compaction)
    for name in file.undone:
        chat.undo_compaction(name)
    return chat


def _time(stamp: float) -> float:
    """Return a time limited to what can be shown."""
    return min(max(stamp, 0.0), LAST_TIME)
