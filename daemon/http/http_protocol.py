"""uvicorn's HTTP protocol, hardened: it knows its peer, and no client can hold it up for ever."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from .body_writer import BodyWriter
from .peer import Connection, identify

CONNECTION = "connection"
"""The key of the `Connection` in the ASGI scope's state."""
TARGET_IS_PATH = "target_is_path"
"""The key that says whether the request line names a path, not an absolute address."""
BODY_WRITER = "body_writer"
"""The key of the response's `BodyWriter`."""

HEADER_SECONDS = 10.0
HEADER_BYTES = 64 * 1024
MAX_CONNECTIONS = 256
MAX_PIPELINED = 8

REFUSAL = (
    b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s"
)
"""An answer of the connection itself, where no request reaches the application."""


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
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._header_timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._active: RequestResponseCycle | None = None
        self.paused_at: float | None = None
        """Since when the client reads too slowly, on the loop's clock; None while it keeps up."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel who connected; the answer goes into the state of every request."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                code="too_many_connections",
                message="Too many connections are open.",
                hint="Close some; each event stream holds one.",
            )
            return
        peer: Connection = identify(transport.get_extra_info("socket"), transport.abort)
        self.app_state = {**self.app_state, CONNECTION: peer}
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that runs, too: uvicorn tells only the newest one that was read."""
        self._stop_header_timer()
        active = self._active
        super().connection_lost(exc)
        if active is not None and not active.response_complete:
            active.disconnected = True
            active.message_event.set()

    def pause_writing(self) -> None:
        """Note since when more waits to be sent than the connection should hold."""
        self.paused_at = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        self.paused_at = None
        super().resume_writing()

    def on_message_begin(self) -> None:
        """Start the clock: all headers have to arrive in ten seconds."""
        super().on_message_begin()
        self._header_bytes = 0
        self._start_header_timer()

    def on_url(self, url: bytes) -> None:
        """Count towards the bound on headers."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count towards the bound on headers."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the request, unless too many wait in line behind another."""
        self._stop_header_timer()
        if len(self.pipeline) >= MAX_PIPELINED:
            self.transport.abort()
            return
        state = self.scope.setdefault("state", {})
        state[TARGET_IS_PATH] = self.url.startswith(b"/")
        super().on_headers_complete()
        # uvicorn stops reading while requests queue up, and would not see the client leave.
        self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser gave up on, in the shape of every other error."""
        active = self._active
        if active is not None and active.response_started and not active.response_complete:
            self.transport.abort()  # words of ours would become a part of that answer
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
                hint="Perhaps the client speaks HTTPS or HTTP/2, or two of its headers disagree.",
            )

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: a request for another protocol is answered in this one, which is allowed."""

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
        super()._start_asgi_task(cycle, app)

    def _count(self, received: int) -> None:
        self._header_bytes += received
        if self._header_bytes > HEADER_BYTES:
            # Only an exception stops the parser, which would still begin the request.
            raise HeadersTooLarge

    def _start_header_timer(self) -> None:
        self._stop_header_timer()
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
