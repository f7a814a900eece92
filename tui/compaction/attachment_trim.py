"""Trimming: omits attachments and long pasted texts from requests, without a model."""

from __future__ import annotations

import msgspec

from ingle.daemon.client.async_client import AsyncDaemonClient

from ..chats.chat import Chat
from ..chats.compaction_record import CompactionRecord
from ..chats.context_view import trimmed_names, trimmed_text, view_entries
from .summary_check import CompactionRefused
from .token_sizes import measure

NOTHING = "There is nothing to trim: no attachment and no long text before the last turn."


def trim(chat: Chat) -> CompactionRecord:
    """Return the trim of all messages before the last prompt.

    Raises `CompactionRefused` if it would change nothing.
    """
    path = [message for message in chat.path if not message.is_open]
    prompts = [index for index, message in enumerate(path) if message.role == "user"]
    before = path[: prompts[-1]] if prompts else []
    done = trimmed_names(chat)
    fresh = [message for message in before if message.id not in done and not message.pinned]
    if not any(trimmed_text(message) != message.text for message in fresh):
        raise CompactionRefused(NOTHING)
    chain = chat.compaction_chain()
    return CompactionRecord(
        at=before[-1].id,
        summary="",
        trims=True,
        after=chain[-1].id if chain else None,
        kept=tuple(message.id for message in before if message.pinned),
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
