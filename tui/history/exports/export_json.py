"""Exports a whole chat with all its branches as JSON, which can be imported again."""

from __future__ import annotations

import msgspec

from ...chats.chat import Chat, ChatSettings
from ...chats.compaction_record import CompactionRecord
from ...chats.message import Message

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
    """Return the chat as JSON; the same chat gives the same bytes."""
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
