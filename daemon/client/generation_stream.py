"""Follows a generation of the daemon to its end, and resumes after a lost connection."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from .async_client import AsyncDaemonClient
from .client_errors import ClientError, ConnectionLost, DaemonUnreachable
from .generation_types import (
    ArgumentsEvent,
    DeltaEvent,
    FinishedEvent,
    GenerationEvent,
    GenerationStarted,
    LoadingEvent,
    PrefillEvent,
    ReasoningEvent,
    RouteTaken,
    StartedEvent,
    ToolCallEvent,
)

RETRY_DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Seconds before each new attempt; the count starts over when an event arrives."""

_EVENTS: dict[str, type[GenerationEvent]] = {
    "loading": LoadingEvent,
    "route": RouteTaken,
    "started": StartedEvent,
    "prefill": PrefillEvent,
    "reasoning": ReasoningEvent,
    "delta": DeltaEvent,
    "tool_call": ToolCallEvent,
    "arguments": ArgumentsEvent,
    "finished": FinishedEvent,
    "error": FinishedEvent,  # `decode_event` raises it
}
"""The events that this client knows; it ignores others."""


class GenerationFollower:
    """Follows a generation in the daemon, which continues even if no client follows it."""

    def __init__(self, client: AsyncDaemonClient, generation_id: str, model: str) -> None:
        self._client = client
        self._path = f"/ingle/v1/generations/{generation_id}"
        self._seen = 0
        self.id = generation_id
        self.model = model

    @classmethod
    async def start(
        cls, client: AsyncDaemonClient, body: Mapping[str, object], generation_id: str | None = None
    ) -> GenerationFollower:
        """Request a generation; raises `ClientError`.

        With an id of `new_generation_id` it is found even if the daemon's reply was lost.
        """
        asked = dict(body) | ({} if generation_id is None else {"id": generation_id})
        try:
            created = await client.request(
                GenerationStarted, "POST", "/ingle/v1/generations", asked
            )
        except DaemonUnreachable:
            if generation_id is None or not await _is_there(client, generation_id):
                raise
            return cls(client, generation_id, str(body.get("model") or ""))
        return cls(client, created.id, created.model)

    async def cancel(self) -> None:
        """Stop it between two tokens; raises `ClientError`."""
        await self._client.request_json("POST", f"{self._path}/cancel")

    async def events(self) -> AsyncGenerator[GenerationEvent, None]:
        """Yield every event once, `FinishedEvent` last; resume if the connection is lost.

        Raises the generation's own `DaemonError`, or `DaemonUnreachable` after the last attempt.
        """
        attempt = 0
        while True:
            seen = self._seen
            try:
                async with aclosing(self._events_once()) as events:
                    async for event in events:
                        yield event
                        if isinstance(event, FinishedEvent):
                            return
                lost: DaemonUnreachable = ConnectionLost(
                    "The daemon ended the answer's stream too early."
                )
            except DaemonUnreachable as error:
                lost = error
            attempt = 0 if self._seen > seen else attempt
            if attempt == len(RETRY_DELAYS):
                raise lost
            await asyncio.sleep(RETRY_DELAYS[attempt])
            attempt += 1

    async def _events_once(self) -> AsyncGenerator[GenerationEvent, None]:
        stream = self._client.events(f"{self._path}/events?after={self._seen}")
        async with aclosing(stream) as events:
            async for event in events:
                if event.id is not None:
                    number = int(event.id) if event.id.isdecimal() else 0
                    if number <= self._seen:
                        continue
                    self._seen = number
                if (kind := _EVENTS.get(event.event)) is not None:
                    yield self._client.decode_event(event, kind)


def new_generation_id() -> str:
    """Return a random id with 96 bits of entropy."""
    return f"gen-{os.urandom(12).hex()}"


async def _is_there(client: AsyncDaemonClient, generation_id: str) -> bool:
    """Whether the daemon has a generation of this id."""
    try:
        await client.request_json("GET", f"/ingle/v1/generations/{generation_id}")
    except ClientError:
        return False
    return True
