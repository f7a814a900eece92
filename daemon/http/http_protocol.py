"""uvicorn's HTTP protocol with the peer's identity, and bounds on headers, time and connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ..transport.peer import PeerConnection, identify, own_uid, still_reads

CONNECTION = "connection"
"""The key of the `PeerConnection` in the ASGI scope's state."""
TARGET_IS_PATH = "target_is_path"
"""The key that says whether the request line names a path, not an absolute address."""
BODY_WRITER = "body_writer"
"""The key of the response's `BodyWriter`."""

HEADER_SECONDS = 10.0
STALL_SECONDS = 30.0
"""Seconds that a client may read nothing although data is waiting."""
HALF_CLOSED_SECONDS = 0.1
"""Seconds between two looks at whether a client that sends no more still waits for its answer."""
LINGER_SECONDS = 30.0
"""Seconds that the rest of a refused body may take."""
HEADER_BYTES = 64 * 1024
HEADER_COST = 32
"""Bytes counted for each header beside its own, so that the number of headers is bounded."""
MAX_CONNECTIONS = 256
STRANGERS_PART = 4
"""One in so many connections may be used by peers other than the owner."""
MAX_PIPELINED = 8

REFUSAL = (
    b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s"
)
"""The response to data that does not reach the application."""


class HeadersTooLarge(Exception):
    """A request's headers go beyond `HEADER_BYTES`."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection: peer identity for every request, bounds on headers, prompt disconnects."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        max_connections: int = MAX_CONNECTIONS,
        web_sockets: frozenset[str] = frozenset(),
    ) -> None:
        """`web_sockets` are the paths that accept a WebSocket."""
        super().__init__(config, server_state, app_state, _loop)
        self._max_connections = max_connections
        self._web_sockets = web_sockets
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._header_bytes = 0
        self._active: RequestResponseCycle | None = None
        self._message_open = False
        self._header_open = False
        self._header_received = 0
        self.connection: PeerConnection | None = None
        """The peer, once it is known."""
        self.paused_at: float | None = None
        """The loop time since which the client has read too slowly; None while it keeps up."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Identify the peer, which goes into the state of every request."""
        super().connection_made(transport)
        self.connection = identify(transport.get_extra_info("socket"), transport.abort)
        if not self._has_room():
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                code="too_many_connections",
                message="Too many connections are open.",
                hint="Close some, each event stream holds one; `max_connections` is the bound.",
            )
            return
        self.app_state = {**self.app_state, CONNECTION: self.connection}
        self._start_timer("headers", HEADER_SECONDS)

    def _has_room(self) -> bool:
        """Whether one more TCP connection is allowed; the owner's unix socket always has room.

        Peers other than the owner share a part, so that the rest stays available.
        """
        mine, me = self.connection, own_uid()
        if mine is None or mine.kind == "unix":
            return True
        others: list[PeerConnection | None] = [
            getattr(one, "connection", None) for one in self.connections
        ]
        tcp = [one for one in others if one is not None and one.kind == "tcp"]
        strangers = sum(one.uid != me for one in tcp)
        if mine.uid != me and strangers > self._max_connections // STRANGERS_PART:
            return False
        return len(tcp) <= self._max_connections

    def connection_lost(self, exc: Exception | None) -> None:
        """End the running request, too: uvicorn ends only the newest one that was read."""
        for name in ("headers", "body", "stall", "end"):
            self._stop_timer(name)
        active = self._active
        super().connection_lost(exc)
        if active is not None and not active.response_complete:
            active.disconnected = True
            active.message_event.set()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection of a client that has sent its requests and waits for answers."""
        super().eof_received()
        active = self._active
        if self._message_open or active is None or active.response_complete:
            return False
        if self.scheme == "https":  # its transport closes with the first half
            return False
        if not still_reads(self.transport.get_extra_info("socket")):
            return False
        self.cycle.keep_alive = False
        self._start_timer("end", HALF_CLOSED_SECONDS, self._leave_if_closed)
        return True

    def _leave_if_closed(self) -> None:
        """Abort a half-closed connection whose other half was closed since."""
        if still_reads(self.transport.get_extra_info("socket")):
            self._start_timer("end", HALF_CLOSED_SECONDS, self._leave_if_closed)
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Note that the write buffer is full, and since when."""
        self.paused_at = self.loop.time()
        self._start_timer("stall", STALL_SECONDS)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        self.paused_at = None
        self._stop_timer("stall")
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse the data; data between two requests must start a request in time."""
        in_headers = self._header_open
        super().data_received(data)
        if self.transport.get_protocol() is not self:
            return  # it is a WebSocket now
        if in_headers and self._header_open:
            # The parser buffers a line without an end, and reports it only when it is complete.
            self._header_received += len(data)
            if self._header_received > HEADER_BYTES:
                self._header_bytes = self._header_received
                self.send_400_response("")
                return
        active = self._active
        answered = not self.pipeline and (active is None or active.response_complete)
        if answered and not self._message_open and "headers" not in self._timers:
            # uvicorn has stopped its clock for idle connections, and blank lines begin nothing.
            self._start_timer("headers", HEADER_SECONDS)

    def on_message_begin(self) -> None:
        """Start the timer: all headers must arrive within ten seconds."""
        super().on_message_begin()
        self._message_open = self._header_open = True
        self._header_bytes = self._header_received = 0
        self._start_timer("headers", HEADER_SECONDS)

    def on_message_complete(self) -> None:
        """Note the end of the body."""
        self._message_open = False
        self._stop_timer("body")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next request; the rest of a refused body must arrive in time."""
        super().on_response_complete()
        if self._message_open and self.cycle.response_complete:
            self._start_timer("body", LINGER_SECONDS)

    def on_url(self, url: bytes) -> None:
        """Count towards the bound on headers."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count towards the bound on headers."""
        self._count(len(name) + len(value) + HEADER_COST)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the request, unless too many are pipelined."""
        self._header_open = False
        self._stop_timer("headers")
        if len(self.pipeline) >= MAX_PIPELINED:
            self.transport.abort()
            return
        # uvicorn would set the date once a second, even without requests.
        date = formatdate(time.time(), usegmt=True).encode("ascii")
        self.server_state.default_headers = [(b"date", date), *self.config.encoded_headers]
        state = self.scope.setdefault("state", {})
        state[TARGET_IS_PATH] = self.url.startswith(b"/")
        super().on_headers_complete()
        # uvicorn stops reading while requests queue up, and would not notice a disconnect.
        self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed, in the format of every other error."""
        active = self._active
        if active is not None and active.response_started and not active.response_complete:
            self.transport.abort()  # an error would become part of that answer
            return
        if self._header_bytes > HEADER_BYTES:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                code="headers_too_large",
                message=f"The request's headers are larger than {HEADER_BYTES} bytes.",
            )
        else:
            self._refuse(
                HTTPStatus.BAD_REQUEST,
                code="invalid_request",
                message="This is not a request of HTTP/1.1.",
                hint="Perhaps the client speaks HTTPS or HTTP/2, two of its headers disagree, or a "
                "letter or space of its path is not percent-encoded.",
            )

    def _should_upgrade_to_ws(self) -> bool:
        """Return whether the path accepts a WebSocket; any other is answered in HTTP/1.1."""
        return self.url.partition(b"?")[0].decode("latin-1") in self._web_sockets

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket protocol."""
        from .web_socket import GuardedWebSocket

        self.ws_protocol_class = GuardedWebSocket
        super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request to upgrade may be answered in HTTP/1.1."""

    def _refuse(
        self, status: HTTPStatus, *, code: str, message: str, hint: str | None = None
    ) -> None:
        """Answer and close; the path is unknown, so the error has the fields of both shapes."""
        error = {"code": code, "message": message, "hint": hint}
        kind = "invalid_request_error" if status < 500 else "server_error"
        body = msgspec.json.encode({"error": {**error, "type": kind, "param": None}})
        phrase = status.phrase.encode("ascii")
        self.transport.write(REFUSAL % (status, phrase, len(body), body))
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._active = cycle
        cycle.scope.setdefault("state", {})[BODY_WRITER] = BodyWriter(cycle, self)
        if cycle.scope["http_version"] == "1.0":
            app = _without_chunks(cycle, app)
        super()._start_asgi_task(cycle, app)

    def _count(self, received: int) -> None:
        self._header_bytes += received
        if self._header_bytes > HEADER_BYTES:
            # Only an exception stops the parser, which would still begin the request.
            raise HeadersTooLarge

    def _start_timer(
        self, name: str, seconds: float, then: Callable[[], None] | None = None
    ) -> None:
        """Abort the connection, or do `then`, unless this timer is stopped in time."""
        self._stop_timer(name)
        if not self.transport.is_closing():
            self._timers[name] = self.loop.call_later(seconds, then or self.transport.abort)

    def _stop_timer(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()


def _without_chunks(cycle: RequestResponseCycle, app: ASGIApp) -> ASGIApp:
    """The application with answers for HTTP/1.0, whose bodies of unknown length end by a close."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        unframed = False

        async def send_unframed(message: Message) -> None:
            nonlocal unframed
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                unframed = b"content-length" not in names
                if unframed:
                    cycle.chunked_encoding = False
            elif unframed:
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, send_unframed)

    return answer


class BodyWriter:
    """Writes parts of one body, after the ASGI message for its start and before that for its end.

    An ASGI message passes through a coroutine of each middleware, which costs more than a token.
    """

    def __init__(self, cycle: RequestResponseCycle, protocol: GuardedProtocol) -> None:
        self._cycle = cycle
        self._protocol = protocol

    @property
    def paused_at(self) -> float | None:
        """The loop time since which the client has read too slowly; None while it keeps up."""
        return self._protocol.paused_at

    def write(self, data: bytes) -> None:
        """Send a part; it is dropped if the client has disconnected."""
        cycle = self._cycle
        if cycle.disconnected or cycle.response_complete:
            return
        assert cycle.response_started
        if cycle.chunked_encoding:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        cycle.transport.write(data)

    async def drain(self) -> None:
        """Wait while the client reads too slowly."""
        if self._protocol.paused_at is not None:
            await self._cycle.flow.drain()
