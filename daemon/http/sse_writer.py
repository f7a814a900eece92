"""Streams of server-sent events or JSON lines, cancelled when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..transport.peer import PeerConnection
from .bodies import cancel_all, until_disconnect
from .http_protocol import BODY_WRITER, CONNECTION, BodyWriter

KEEP_ALIVE_SECONDS = 15.0
STALL_SECONDS = 30.0
COMMENT = b": keep-alive\n\n"
SSE = b"text/event-stream; charset=utf-8"
NDJSON = b"application/x-ndjson"


def loading_comment(fraction: float) -> bytes:
    """Return the comment that reports the loading of a model; `fraction` is from 0 to 1."""
    return b": loading the model, %d %%\n\n" % (100 * fraction)


class StreamStyle(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one protocol's streams beside their events.

    `comment` fills silences; it is empty if the protocol has no comments. `loading` returns the
    bytes sent while a model loads, from the loaded fraction; if they are empty, only the headers
    are sent. `on_error` returns the last bytes of a stream that fails after it began.
    """

    on_error: Callable[[Exception], bytes]
    media_type: bytes = SSE
    comment: bytes = COMMENT
    loading: Callable[[float], bytes] = loading_comment
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


class EventWriter:
    """Takes the encoded events of a stream from its producer."""

    def __init__(self, body: BodyWriter) -> None:
        self._body = body
        self._early: list[bytes] = []
        self._clock = asyncio.get_running_loop().time
        self.written_at = self._clock()
        """When the last event was written, on the loop's clock."""
        self.begun = asyncio.Event()
        """Set with the first event."""
        self._opened = asyncio.Event()

    def write(self, frames: bytes) -> None:
        """Write one or more events without waiting, for events that come at a model's pace.

        With empty `frames`, only the headers are sent.
        """
        self.written_at = self._clock()
        if not frames:
            self.begun.set()
        elif self._opened.is_set():
            self._body.write(frames)
        else:
            self._early.append(frames)
            self.begun.set()

    async def send(self, frames: bytes) -> None:
        """Write one or more events, and wait while the client reads too slowly."""
        self.write(frames)
        await self._opened.wait()
        await self._body.drain()

    def open(self) -> None:
        """Note that the headers were sent, and write the events that waited for them."""
        self._opened.set()
        if self._early:
            self._body.write(b"".join(self._early))
            self._early.clear()


class EventStream(Response):
    """Streams what `produce` writes; `style.comment` fills each silence of `keep_alive` seconds.

    The headers wait for the first event, or the first comment, so a failure before that still gets
    its proper status. A later one becomes the frame of `style.on_error`, and ends the stream.
    A client that leaves, or reads nothing for `STALL_SECONDS`, cancels the producer at once.
    """

    def __init__(
        self,
        produce: Callable[[EventWriter], Awaitable[None]],
        *,
        style: StreamStyle,
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        # The base class would count the length of a body that does not exist yet.
        self.status_code = 200
        self.background = None
        self.raw_headers = [
            (b"content-type", style.media_type),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            *((name.encode(), value.encode()) for name, value in style.headers.items()),
        ]
        self._produce = produce
        self._style = style
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the producer returns or the client leaves."""
        body: BodyWriter = scope["state"][BODY_WRITER]
        out = EventWriter(body)
        pump = asyncio.create_task(self._pump(send, out))
        helpers = [
            asyncio.create_task(until_disconnect(receive)),
            asyncio.create_task(self._watch(out, body, scope["state"][CONNECTION])),
        ]
        try:
            await asyncio.wait({pump, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            if not pump.done():
                pump.cancel()
            await asyncio.wait({pump})
        finally:
            await cancel_all([pump, *helpers])
        if not pump.cancelled() and (failure := pump.exception()) is not None:
            raise failure

    async def _pump(self, send: Send, out: EventWriter) -> None:
        opening = asyncio.create_task(self._open(send, out))
        try:
            try:
                await self._produce(out)
            except Exception as error:
                if not out.begun.is_set():
                    raise
                out.write(self._style.on_error(error))
            out.begun.set()
            await opening
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await cancel_all([opening])

    async def _open(self, send: Send, out: EventWriter) -> None:
        await out.begun.wait()
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        out.open()

    async def _watch(self, out: EventWriter, body: BodyWriter, connection: PeerConnection) -> None:
        """Comment on silence; return only when the client stalls, which ends the stream.

        One sleeping task per stream is cheaper than one timer per event.
        """
        clock = asyncio.get_running_loop().time
        while True:
            paused_at = body.paused_at
            if paused_at is not None:
                due = paused_at + STALL_SECONDS
            else:
                due = out.written_at + self._keep_alive
            if clock() < due:
                await asyncio.sleep(due - clock())
            elif paused_at is None:
                out.write(self._style.comment)
            else:
                connection.abort()
                await asyncio.sleep(
                    0
                )  # the server notices the disconnect in the loop's next iteration
                return
