"""uvicorn's HTTP protocol, hardened: it knows its peer, and no client can hold it up for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from .peer import Connection, identify

CONNECTION = "connection"
"""The key of the `Connection` in the ASGI scope's state."""
TARGET_IS_PATH = "target_is_path"
"""The key that says whether the request line names a path, not an absolute address."""

HEADER_SECONDS = 10.0
HEADER_BYTES = 64 * 1024
MAX_CONNECTIONS = 256
MAX_PIPELINED = 8

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s"
)
BUSY_BODY = (
    b'{"error":{"code":"too_many_connections","message":"Too many connections are open.",'
    b'"hint":"Close some; each event stream holds one."}}'
)


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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel who connected; the answer goes into the state of every request."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(BUSY % (len(BUSY_BODY), BUSY_BODY))
            transport.close()
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

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._active = cycle
        super()._start_asgi_task(cycle, app)

    def _count(self, received: int) -> None:
        self._header_bytes += received
        if self._header_bytes > HEADER_BYTES:
            self.transport.abort()

    def _start_header_timer(self) -> None:
        self._stop_header_timer()
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
