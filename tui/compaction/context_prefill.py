"""Prefills the context of the next prompt ahead of time."""

from __future__ import annotations

from contextlib import aclosing, suppress

import msgspec

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.generation_stream import GenerationFollower

from ..chats.chat import Chat
from ..chats.turn_request import TurnRequest


async def warm_up(client: AsyncDaemonClient, chat: Chat, model: str | None) -> None:
    """Have the daemon prefill the context of the next prompt at low priority.

    Failures are ignored: the next prompt then takes longer.
    """
    generation = await begin_warm_up(client, chat, model)
    if generation is not None:
        with suppress(ClientError):
            async with aclosing(generation.events()) as events:
                async for _ in events:
                    continue


async def begin_warm_up(
    client: AsyncDaemonClient, chat: Chat, model: str | None
) -> GenerationFollower | None:
    """Start the prefill in the daemon without waiting; return None if that fails."""
    request = msgspec.structs.replace(
        TurnRequest.of(chat, model), max_tokens=0, batch=True, attached=False
    )
    try:
        return await GenerationFollower.start(client, request.body())
    except ClientError:
        return None
