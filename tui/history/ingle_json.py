"""Exports a whole chat with all its branches as JSON, and imports it again."""

from __future__ import annotations

import msgspec

from ..chats.chat import Chat, ChatSettings
from ..chats.message import CompactionRecord, Message
from .imports.imported_chat import Json, MalformedChat

FORMAT = "ingle chat"
VERSION = 1


class ChatFile(msgspec.Struct, kw_only=True):
    """The contents of the file; `chosen` are the messages on the visible branches."""

    format: str
    version: int
    id: str
    created: float
    settings: ChatSettings
    messages: list[Message]
    chosen: list[str]
    compactions: list[CompactionRecord]
    undone: list[str]


def export_json(chat: Chat) -> str:
    """Return the chat as JSON; equal chats are exported as equal bytes."""
    chosen = set(chat.chosen_ids())
    file = ChatFile(
        format=FORMAT,
        version=VERSION,
        id=chat.id,
        created=chat.created,
        settings=chat.settings,
        messages=list(chat.messages.values()),
        chosen=[name for name in chat.messages if name in chosen],
        compactions=list(chat.compactions.values()),
        undone=sorted(chat.undone),
    )
    # An unpaired surrogate, which a model may generate, cannot be encoded.
    content = msgspec.json.format(msgspec.json.encode(file), indent=1)
    return content.decode() + "\n"


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
    # What a file says cannot be the user's consent.
    file.settings.tools, file.settings.consents = "", {}
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
    """Clamp a time to the range that calendars can show."""
    return min(max(stamp, 0.0), LAST_TIME)
