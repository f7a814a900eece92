"""`Generation`: one answer the daemon writes, followed to its end across lost connections."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec

from ..chats.turn_request import TurnRequest
from .api_types import (
    Finished,
    GenerationCreated,
    GenerationEvent,
    Loading,
    ReasoningDelta,
    Routed,
    Started,
    TextDelta,
)
from .client_errors import ClientError, DaemonError, DaemonUnreachable
from .daemon_client import AsyncDaemonClient, error_from_body
from .sse_parser import ServerSentEvent

RETRY_DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Seconds before each new attempt; the count starts over when an event arrives."""

_EVENTS: dict[str, type[GenerationEvent]] = {
    "loading": Loading,
    "route": Routed,
    "started": Started,
    "reasoning": ReasoningDelta,
    "delta": TextDelta,
    "finished": Finished,
}


class Generation:
    """An answer that belongs to the daemon, and goes on there whether or not anyone follows."""

    def __init__(self, client: AsyncDaemonClient, generation_id: str, model: str) -> None:
        self._client = client
        self._path = f"/ingle/v1/generations/{generation_id}"
        self._seen = 0
        self.id = generation_id
        self.model = model

    @classmethod
    async def start(
        cls, client: AsyncDaemonClient, request: TurnRequest, generation_id: str | None = None
    ) -> Generation:
        """Ask for the next message of the conversation; raises `ClientError`.

        With an id of `new_generation_id` it is found also where the daemon's reply was lost.
        """
        return await cls.ask(client, request.body(), generation_id)

    @classmethod
    async def ask(
        cls, client: AsyncDaemonClient, body: Mapping[str, object], generation_id: str | None = None
    ) -> Generation:
        """As `start`, with the body of a request."""
        asked = dict(body) | ({} if generation_id is None else {"id": generation_id})
        try:
            created = await client.request(
                GenerationCreated, "POST", "/ingle/v1/generations", asked
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
        """Yield every event once, `Finished` last, resuming by id where the connection is lost.

        Raises the generation's own `DaemonError`, or `DaemonUnreachable` after the last attempt.
        """
        attempt = 0
        while True:
            seen = self._seen
            try:
                async with aclosing(self._events_once()) as events:
                    async for event in events:
                        yield event
                        if isinstance(event, Finished):
                            return
                lost = DaemonUnreachable("The daemon ended the answer's stream too early.")
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
                parsed = parse_event(event)
                if parsed is not None:
                    yield parsed


def new_generation_id() -> str:
    """An id that nobody else chooses or can guess."""
    return f"gen-{secrets.token_hex(12)}"


async def _is_there(client: AsyncDaemonClient, generation_id: str) -> bool:
    """Whether the daemon has a generation of this id."""
    try:
        await client.request_json("GET", f"/ingle/v1/generations/{generation_id}")
    except ClientError:
        return False
    return True


def parse_event(event: ServerSentEvent) -> GenerationEvent | None:
    """The event as its type, None for one of a kind not known here; raises `DaemonError`."""
    if event.event == "error":
        raise error_from_body(event.data)
    kind = _EVENTS.get(event.event)
    if kind is None:
        return None
    try:
        return msgspec.json.decode(event.data, type=kind)
    except msgspec.MsgspecError as error:
        raise DaemonError(
            f"The daemon sent a `{event.event}` event that was not understood: {error}.",
            code="bad_answer",
        ) from error
