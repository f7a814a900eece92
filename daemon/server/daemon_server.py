"""Runs the daemon: takes the lock, listens, serves, and shuts down in order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path

import uvicorn
from starlette.routing import WebSocketRoute

from ingle.backends.base.process_priority import yield_to_interactive

from ..http.http_protocol import MAX_CONNECTIONS, GuardedProtocol
from ..retention.retention_keeper import RetentionKeeper
from ..service.socket_activation import inherited_sockets
from ..service.systemd_notify import ServiceNotifier
from ..services import Services
from ..settings.config import Config
from ..transport.peer import is_loopback
from ..transport.tls import Certificate, TLSListener
from .app import create_app
from .daemon_log import configure_logging
from .gauge_publisher import GaugePublisher
from .instance_lock import InstanceLock, LockHolder
from .listeners import Listeners, listen
from .service_factory import build_services

log = logging.getLogger("ingle.daemon")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CLOSING_SECONDS = 2
PROTECTION = (
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
"""Headers of every response: pages of other origins cannot embed it as image, style or script."""


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers and without periodic wake-ups."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        max_connections: int = MAX_CONNECTIONS,
        web_sockets: frozenset[str] = frozenset(),
        certificate: Certificate | None = None,
    ) -> None:
        """With a `certificate`, TCP connections use TLS, except over loopback."""
        super().__init__(config)
        self._max_connections = max_connections
        self._web_sockets = web_sockets
        self._certificate = certificate
        self._doors: list[asyncio.Task[None]] = []
        self.exit_requested = asyncio.Event()
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to `serve`, which drains before it closes connections."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on sockets that are already bound, and announce it."""
        loop = asyncio.get_running_loop()
        self.servers = []
        for one in sockets or []:
            if self._certificate is not None and one.family in (socket.AF_INET, socket.AF_INET6):
                door = TLSListener(one, self._certificate, self._protocol, self._max_connections)
                self._doors.append(asyncio.create_task(door.serve()))
                continue
            self.servers.append(
                await loop.create_server(self._protocol, sock=one, backlog=self.config.backlog)
            )
        self.started = True
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and close the open ones as uvicorn does."""
        for door in self._doors:
            door.cancel()
        await asyncio.gather(*self._doors, return_exceptions=True)
        state = self.server_state
        if not state.connections and not state.tasks:  # uvicorn would sleep for 0.1 s
            for server in self.servers:
                server.close()
            return
        await super().shutdown(sockets)

    def _protocol(self) -> GuardedProtocol:
        return GuardedProtocol(
            self.config,
            self.server_state,
            {},
            max_connections=self._max_connections,
            web_sockets=self._web_sockets,
        )

    async def main_loop(self) -> None:
        """Sleep until the end; uvicorn wakes up ten times a second for its Date header.

        `GuardedProtocol` computes that header when a response needs it.
        """
        await self.exit_requested.wait()


def run(config: Config, *, tcp_optional: bool = False) -> None:
    """Run `serve` on the fastest available event loop; blocks until the daemon ends."""
    yield_to_interactive()
    if sys.platform == "win32":
        asyncio.run(serve(config, tcp_optional=tcp_optional))
    else:
        import uvloop

        uvloop.run(serve(config, tcp_optional=tcp_optional))


async def serve(
    config: Config,
    *,
    tcp_optional: bool = False,
    ready: Callable[[Services], None] | None = None,
) -> None:
    """Run the daemon of this home until a signal or `POST /ingle/v1/shutdown` ends it.

    Raises `AlreadyRunning`, `PortInUse`, `SocketError`, `UnsafeFolder` and `FolderUnusable` before
    it serves. With `tcp_optional` a port in use leaves it with the unix socket. `ready` is called
    once connections are accepted.
    """
    started_at = time.monotonic()
    configure_logging(config.log_level, config.log_format, config.paths.log)
    notifier = ServiceNotifier(os.environ)
    inherited = inherited_sockets(os.environ)
    config.paths.make_private()
    for folder in config.paths.unwritable():
        log.warning(
            "%s cannot be written: existing content is served, nothing new is stored", folder
        )
    lock = InstanceLock(config.paths.lock)
    lock.acquire()
    try:
        listeners = listen(config, inherited, tcp_optional=tcp_optional)
        try:
            unix = str(listeners.unix.path) if listeners.unix is not None else None
            lock.publish(LockHolder(os.getpid(), unix, listeners.address))
            await _serve(config, listeners, notifier, started_at, ready)
        finally:
            listeners.close()
    finally:
        lock.release()


async def _serve(
    config: Config,
    listeners: Listeners,
    notifier: ServiceNotifier,
    started_at: float,
    ready: Callable[[Services], None] | None,
) -> None:
    ending = ShutdownRequest()
    services = build_services(
        config, address=listeners.address, started_at=started_at, shutdown=ending.request
    )
    gauges = GaugePublisher(services)
    retention = RetentionKeeper(config, services.batches, services.responses)
    server = make_server(services)
    with _signals(ending.request):
        serving = asyncio.create_task(server.serve(sockets=listeners.sockets))
        asked = asyncio.create_task(ending.asked.wait())
        others = [
            asyncio.create_task(_announce(server, services, listeners, notifier, ready)),
            asyncio.create_task(retention.run()),
            asyncio.create_task(notifier.watch()),
        ]
        try:
            await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
            notifier.stopping()
            log.info("Shutting down; running answers have %g seconds", config.shutdown_grace)
            await _drain(services, gauges, config.shutdown_grace, ending)
        finally:
            for task in (asked, *others):
                task.cancel()
            server.should_exit = True
            server.exit_requested.set()
            await asyncio.gather(serving, asked, *others, return_exceptions=True)
        serving.result()
    log.info("Ended")


def make_server(services: Services) -> Server:
    """Return uvicorn with our protocol, and without lifespan and proxy headers."""
    app = create_app(services)
    return Server(
        uvicorn.Config(
            app,
            http=GuardedProtocol,
            ws="none",  # `GuardedProtocol` imports its own with the first WebSocket
            ws_max_size=services.config.max_body_bytes,
            ws_ping_interval=60.0,
            ws_ping_timeout=60.0,
            ws_per_message_deflate=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=CLOSING_SECONDS,
            headers=list(PROTECTION),
        ),
        max_connections=services.config.max_connections,
        web_sockets=frozenset(
            route.path for route in app.routes if isinstance(route, WebSocketRoute)
        ),
        certificate=_certificate(services.config),
    )


def _certificate(config: Config) -> Certificate | None:
    if not config.tls_cert or is_loopback((config.host, 0)):
        return None
    return Certificate(Path(config.tls_cert), Path(config.tls_key))


class ShutdownRequest:
    """A request to end the daemon; a second one ends it at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.urgent = asyncio.Event()

    def request(self) -> None:
        """Request the shutdown, or an immediate end."""
        if self.asked.is_set():
            self.urgent.set()
        self.asked.set()


async def _announce(
    server: Server,
    services: Services,
    listeners: Listeners,
    notifier: ServiceNotifier,
    ready: Callable[[Services], None] | None,
) -> None:
    await server.listening.wait()
    places = [str(listeners.unix.path)] if listeners.unix is not None else []
    places += [f"http://{listeners.address}"] if listeners.address else []
    if not is_loopback((services.config.host, 0)):
        secured = "TLS" if services.config.tls_cert else "without TLS"
        places.append(f"{services.config.host} ({secured}, other machines need a key)")
    log.info("Listening on %s", " and ".join(places))
    notifier.ready(f"Listening on {' and '.join(places)}")
    gc.freeze()  # the collector need not walk long-lived objects between two tokens
    gc.enable()
    if ready is not None:
        ready(services)
    # It measures the processor's load from its import on.
    await asyncio.to_thread(import_module, "psutil")
    await services.batches.resume()
    await services.manager.preload(services.config.preload)


async def _drain(
    services: Services, gauges: GaugePublisher, grace: float, ending: ShutdownRequest
) -> None:
    """Let answers finish while the daemon still publishes its state; then end what is left."""
    await services.warmer.close()
    await services.batches.close()
    await services.documents.close()
    closing = asyncio.create_task(services.manager.close(grace))
    urgent = asyncio.create_task(ending.urgent.wait())
    await asyncio.wait({closing, urgent}, return_when=asyncio.FIRST_COMPLETED)
    urgent.cancel()
    if not closing.done():
        await services.manager.close(0.0)
    await closing
    await services.generations.close()
    await services.pulls.close()
    await services.engines.close()
    services.router.close()
    gauges.close()
    services.hub.close()


@contextlib.contextmanager
def _signals(request: Callable[[], None]) -> Generator[None]:
    """Call `request` on SIGINT and SIGTERM while the context lasts."""
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        for number in SIGNALS:
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(request))
        yield
        return
    try:
        for number in SIGNALS:
            loop.add_signal_handler(number, request)
    except ValueError:  # not the main thread: the caller ends the daemon in another way
        yield
        return
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
