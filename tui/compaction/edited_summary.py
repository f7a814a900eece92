"""A summary that its reader has changed."""

from __future__ import annotations

import time

import msgspec

from ..chats.chat import Chat
from ..chats.compaction_record import CompactionRecord
from ..chats.context_view import view_entries
from ..chats.message_ids import new_id
from ..client.daemon_client import AsyncDaemonClient
from .token_sizes import measure


async def edited(
    client: AsyncDaemonClient, chat: Chat, model: str | None, text: str
) -> CompactionRecord:
    """The last compaction of the chat with another summary, measured; raises `ClientError`."""
    chain = chat.compaction_chain()
    changed = msgspec.structs.replace(
        chain[-1], id=new_id(), created=time.time(), summary=text, seconds=0.0
    )
    size = await measure(client, model, view_entries(chat, [*chain[:-1], changed]))
    return msgspec.structs.replace(changed, tokens_after=size.total)
