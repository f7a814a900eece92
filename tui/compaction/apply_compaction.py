"""Applies, undoes and edits compactions, and trims: omits attachments and long pasted texts."""

from __future__ import annotations

import time

import msgspec

from ingle.daemon.client.async_client import AsyncDaemonClient

from ..chats.chat import Chat
from ..chats.context_view import view_entries
from ..chats.history_protocol import ChatRecorder
from ..chats.message import CompactionRecord, new_id
from .compaction_range import trim_range
from .summary_notes import CompactionRefused
from .token_sizes import measure

NONE_TO_UNDO = "There is no compaction here to undo."


def apply(
    chat: Chat, history: ChatRecorder, compaction: CompactionRecord, *, replaces: str = ""
) -> None:
    """Add a compaction to the chat, replacing the one with the id `replaces`."""
    if replaces:
        _mark_undone(chat, history, replaces)
    chat.add_compaction(compaction)
    history.add_compaction(chat.id, compaction)


def undo(chat: Chat, history: ChatRecorder, name: str = "") -> list[CompactionRecord]:
    """Undo the compaction `name`, or the last one; return the compactions undone.

    Raises `CompactionRefused` if there is none.
    """
    chain = chat.compaction_chain()
    names = [step.id for step in chain]
    if not chain or (name and name not in names):
        raise CompactionRefused(NONE_TO_UNDO)
    undone = chain[names.index(name) if name else -1 :]
    for step in reversed(undone):
        _mark_undone(chat, history, step.id)
    return undone


def _mark_undone(chat: Chat, history: ChatRecorder, name: str) -> None:
    chat.undo_compaction(name)
    history.undo_compaction(chat.id, name)


async def edited(
    client: AsyncDaemonClient, chat: Chat, model: str | None, text: str
) -> CompactionRecord:
    """Return the last compaction of the chat with another summary, measured.

    Raises `ClientError`.
    """
    chain = chat.compaction_chain()
    changed = msgspec.structs.replace(
        chain[-1], id=new_id(), created=time.time(), summary=text, seconds=0.0
    )
    size = await measure(client, model, view_entries(chat, [*chain[:-1], changed]))
    return msgspec.structs.replace(changed, tokens_after=size.total)


NOTHING = (
    "There is nothing to trim: no attachment, no long text and no long result of a tool is sent."
)


def trim(chat: Chat) -> CompactionRecord:
    """Return the trim of all messages before the last turn and of the results of its tools but
    those of the last round; of all messages if only the last turn has long texts.

    Raises `CompactionRefused` if it would change nothing.
    """
    before, kept = trim_range(chat)
    if not before:
        raise CompactionRefused(NOTHING)
    chain = chat.compaction_chain()
    return CompactionRecord(
        at=before[-1].id,
        summary="",
        trims=True,
        after=chain[-1].id if chain else None,
        kept=tuple(message.id for message in kept),
        turns=sum(message.role == "user" for message in before),
    )


async def measured_trim(
    client: AsyncDaemonClient, chat: Chat, model: str | None
) -> CompactionRecord:
    """Return the trim with the token counts before and after it.

    Raises `CompactionRefused` and `ClientError`.
    """
    compaction = trim(chat)
    views = [view_entries(chat), view_entries(chat, [*chat.compaction_chain(), compaction])]
    before, after = [await measure(client, model, view) for view in views]
    return msgspec.structs.replace(compaction, tokens_before=before.total, tokens_after=after.total)
