"""Server-sent events: one ASGI message per event, and an end as soon as the client has left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .http_protocol import CONNECTION
from .peer import Connection

KEEP_ALIVE_SECONDS = 15.0
STALL_SECONDS = 30.0
COMMENT = b": keep-alive\n\n"
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Frames = AsyncGenerator[bytes, None]
T = TypeVar("T")


def encode_event(data: bytes, *, event: str | None = None, id: int | None = None) -> bytes:  # noqa: A002 - the protocol's word
    """One event; `data` is JSON, which has no line break of its own."""
    parts: list[bytes] = []
    if id is not None:
        parts.append(b"id: %d\n" % id)
    if event is not None:
        parts.append(b"event: %s\n" % event.encode())
    parts.append(b"data: " + data + b"\n\n")
    return b"".join(parts)


class EventStream(Response):
    """Streams encoded events; a comment goes out when there was none for `keep_alive` seconds.

    The headers wait for the first event, or the first comment, so a failure before that still gets
    its proper status. A later one becomes the frame that `on_error` makes, and ends the stream.
    A client that leaves, or reads nothing for `STALL_SECONDS`, ends the frames' generator at once.
    """

    def __init__(
        self,
        frames: Frames,
        *,
        on_error: Callable[[Exception], bytes],
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        # The base class would count the length of a body that does not exist yet.
        self.status_code = 200
        self.background = None
        self.raw_headers = list(HEADERS)
        self._frames = frames
        self._on_error = on_error
        self._keep_alive = keep_alive
        self._started = False
        self._sending = asyncio.Lock()
        self._last_sent = 0.0
        self._writing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the frames end or the client leaves."""
        connection: Connection | None = scope.get("state", {}).get(CONNECTION)
        self._last_sent = asyncio.get_running_loop().time()
        pump = asyncio.create_task(self._pump(send))
        helpers = [
            asyncio.create_task(until_disconnect(receive)),
            asyncio.create_task(self._watch(send, connection)),
        ]
        try:
            await asyncio.wait({pump, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            if not pump.done():
                pump.cancel()
            await asyncio.wait({pump})
        finally:
            await _cancel_all([pump, *helpers])
        if not pump.cancelled() and (failure := pump.exception()) is not None:
            raise failure

    async def _pump(self, send: Send) -> None:
        async with contextlib.aclosing(self._frames) as frames:
            try:
                async for frame in frames:
                    await self._write(send, frame)
            except Exception as error:
                if not self._started:
                    raise
                await self._write(send, self._on_error(error))
        await self._write(send, b"", more=False)

    async def _watch(self, send: Send, connection: Connection | None) -> None:
        """Comment on silence; return only when the client stalls, which ends the stream.

        One sleeper a stream, not a timer an event: at hundreds of tokens a second that counts.
        """
        clock = asyncio.get_running_loop().time
        while True:
            quiet = clock() - self._last_sent
            due = STALL_SECONDS if self._writing else self._keep_alive
            await asyncio.sleep(max(due - quiet, 0.0))
            quiet = clock() - self._last_sent
            if self._writing and quiet >= STALL_SECONDS:
                if connection is not None:
                    connection.abort()
                    await asyncio.sleep(0)  # the server hears of the loss in the loop's next round
                return
            if not self._writing and quiet >= self._keep_alive:
                await self._write(send, COMMENT)

    async def _write(self, send: Send, frame: bytes, *, more: bool = True) -> None:
        async with self._sending:
            if not self._started:
                self._started = True
                await send(
                    {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                )
            self._last_sent = asyncio.get_running_loop().time()
            self._writing = True
            await send({"type": "http.response.body", "body": frame, "more_body": more})
            self._writing = False


async def until_disconnect(receive: Receive) -> None:
    """Return once the client has gone; the body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        continue


async def run_until_disconnect(receive: Receive, work: Awaitable[T]) -> T | None:
    """The work's result, or None where the client left first and the work was cancelled."""
    task = asyncio.ensure_future(work)
    watch = asyncio.create_task(until_disconnect(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        await _cancel_all([task, watch])


async def _cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
