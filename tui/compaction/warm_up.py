"""Having a new view computed before it is needed."""

from __future__ import annotations

from contextlib import aclosing

from ..api import GenerationCreated
from ..chats.chat import Chat
from ..client import DaemonClient
from ..errors import ClientError, DaemonError
from ..generation import Generation
from ..turn_request import TurnRequest


async def warm_up(client: DaemonClient, chat: Chat, model: str | None) -> None:
    """Have the daemon compute what the next prompt stands behind, when nothing else waits.

    That it could not is no harm: the next prompt then takes longer.
    """
    request = TurnRequest.of(chat, model).body() | {"priority": "batch"}
    try:
        generation = await _started(client, request)
        async with aclosing(generation.events()) as events:
            async for _ in events:
                continue
    except ClientError:
        return


async def _started(client: DaemonClient, request: dict[str, object]) -> Generation:
    """The generation of nothing, or of one token where a daemon wants one at least."""
    path = "/ingle/v1/generations"
    try:
        created = await client.request(GenerationCreated, "POST", path, request | {"max_tokens": 0})
    except DaemonError as error:
        if error.status != 400:
            raise
        created = await client.request(GenerationCreated, "POST", path, request | {"max_tokens": 1})
    return Generation(client, created.id, created.model)
