"""Trimming: attachments and long pasted texts are left out of what is sent, without a model."""

from __future__ import annotations

from ..chats.chat import Chat
from ..chats.compaction import Compaction
from ..chats.view import trimmed_names, trimmed_text
from .check import Refused

NOTHING = "There is nothing to trim: no attachment and no long text before the last turn."


def trim(chat: Chat) -> Compaction:
    """The trim of everything before the last prompt; raises `Refused` where it changes nothing."""
    path = [message for message in chat.path if not message.is_open]
    prompts = [index for index, message in enumerate(path) if message.role == "user"]
    before = path[: prompts[-1]] if prompts else []
    done = trimmed_names(chat)
    fresh = [message for message in before if message.id not in done and not message.pinned]
    if not any(trimmed_text(message) != message.text for message in fresh):
        raise Refused(NOTHING)
    chain = chat.compaction_chain()
    return Compaction(
        at=before[-1].id,
        summary="",
        trims=True,
        after=chain[-1].id if chain else None,
        kept=tuple(message.id for message in before if message.pinned),
        turns=sum(message.role == "user" for message in before),
    )
