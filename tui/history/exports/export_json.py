"""`export_json`: the whole chat with all its branches, as a file that can be imported again."""

from __future__ import annotations

import msgspec

from ...chats.chat import Chat, ChatSettings
from ...chats.compaction_record import CompactionRecord
from ...chats.message import Message

FORMAT = "ingle chat"
VERSION = 1


class ChatFile(msgspec.Struct, kw_only=True):
    """What the file holds; `chosen` are the messages on the branches that are on the screen."""

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
    """The chat as JSON; the same chat gives the same bytes."""
    chosen = set(chat.chosen_names())
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
    # A half of a surrogate pair, which a model may have said, has no bytes.
    content = msgspec.json.format(msgspec.json.encode(file), indent=1)
    return content.decode() + "\n"
