"""`read_own`: a chat that was exported as JSON by ingle."""

from __future__ import annotations

import msgspec

from ...chats.chat import Chat
from ..exports.export_json import VERSION, ChatFile
from .foreign_chat import Json, MalformedChat


def read_own(entry: Json) -> Chat:
    """The chat with all its branches; raises `MalformedChat`."""
    try:
        file = msgspec.convert(entry, ChatFile)
    except msgspec.ValidationError as error:
        raise MalformedChat(str(error)) from error
    if file.version > VERSION:
        raise MalformedChat("it was written by a newer ingle")
    for message in file.messages:
        if message.is_open:
            message.ending = "interrupted"
    try:
        chat = Chat.restore(
            file.settings, file.messages, file.chosen, id=file.id, created=file.created
        )
    except KeyError as error:
        raise MalformedChat(f"message {error} is missing before its children") from error
    for compaction in file.compactions:
        chat.add_compaction(compaction)
    for name in file.undone:
        chat.undo_compaction(name)
    return chat
