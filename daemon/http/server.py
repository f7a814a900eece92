"""The daemon's life: lock, sockets, services, serving, and an orderly end."""

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
from dataclasses import dataclass
from functools import partial

import uvicorn

from ingle.models.catalog import Catalog
from ingle.models.store import ModelStore

from ..aliases import AliasTable
from ..app import create_app
from ..batches.batch_manager import BatchManager
from ..config import Config
from ..events import EventHub
from ..gauges import GaugePublisher
from ..generations import GenerationRegistry
from ..lifecycle import ModelManager
from ..limits import Limits
from ..lock import InstanceLock, LockHolder
from ..memory import MemorySnapshot
from ..preparation import ModelPreparer
from ..pulls import PullManager
from ..services import Services, canonical_name
from .http_protocol import GuardedProtocol
from .sockets import PortInUse, UnixListener, bind_tcp, bind_unix

log = logging.getLogger("ingle.daemon")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CLOSING_SECONDS = 2


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers, and idle while nothing happens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.exit_requested = asyncio.Event()
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to `serve`, which drains before it closes connections."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        """Keep the Date header fresh once a second; uvicorn would wake up ten times."""
        counter = 0
        while not await self.on_tick(counter) and not self.exit_requested.is_set():
            counter += 10  # uvicorn's ticks are tenths of a second
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.exit_requested.wait(), 1.0)


@dataclass(frozen=True)
class Listeners:
    """What the daemon listens on."""

    unix: UnixListener | None
    tcp: socket.socket | None

    @property
    def sockets(self) -> list[socket.socket]:
        """All of them."""
        unix = [self.unix.socket] if self.unix is not None else []
        return unix + ([self.tcp] if self.tcp is not None else [])

    @property
    def address(self) -> str | None:
        """Host and port of TCP."""
        if self.tcp is None:
            return None
        host, port = self.tcp.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Stop listening and remove the socket's file."""
        if self.unix is not None:
            self.unix.close()
        if self.tcp is not None:
            self.tcp.close()


def run(config: Config, *, tcp_optional: bool = False) -> None:
    """`serve` on the fastest event loop there is; blocks until the daemon ends."""
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
    """Be the daemon of this home until a signal or `POST /ingle/v1/shutdown` ends it.

    Raises `AlreadyRunning`, `PortInUse`, `SocketError`, `UnsafeFolder` and `FolderUnusable` before
    it serves. With `tcp_optional` a port that is taken leaves it with the unix socket. `ready` is
    called once connections are accepted.
    """
    started_at = time.monotonic()
    configure_logging(config.log_level)
    config.paths.make_private()
    lock = InstanceLock(config.paths.lock)
    lock.acquire()
    try:
        listeners = _listen(config, tcp_optional=tcp_optional)
        try:
            unix = str(listeners.unix.path) if listeners.unix is not None else None
            lock.publish(LockHolder(os.getpid(), unix, listeners.address))
            await _serve(config, listeners, started_at, ready)
        finally:
            listeners.close()
    finally:
        lock.release()


def configure_logging(level: str) -> None:
    """Everything to stderr; requests are not logged, and no prompt ever is."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("ingle", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    # uvicorn tells of every start and stop in words of its own.
    chosen = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, chosen))


def _listen(config: Config, *, tcp_optional: bool) -> Listeners:
    tcp = _listen_on_tcp(config, optional=tcp_optional) if config.port >= 0 else None
    try:
        unix = bind_unix(config.socket, config.paths) if sys.platform != "win32" else None
    except BaseException:
        if tcp is not None:
            tcp.close()
        raise
    return Listeners(unix, tcp)


def _listen_on_tcp(config: Config, *, optional: bool) -> socket.socket | None:
    try:
        return bind_tcp(config.host, config.port)
    except PortInUse as error:
        if not optional or sys.platform == "win32":
            raise
        log.warning("%s Only the unix socket is served.", error.message)
        return None


async def _serve(
    config: Config,
    listeners: Listeners,
    started_at: float,
    ready: Callable[[Services], None] | None,
) -> None:
    ending = Ending()
    services = build_services(
        config, address=listeners.address, started_at=started_at, shutdown=ending.request
    )
    gauges = GaugePublisher(services.hub, services.manager, services.pulls, services.memory)
    server = make_server(services)
    with _signals(ending.request):
        serving = asyncio.create_task(server.serve(sockets=listeners.sockets))
        asked = asyncio.create_task(ending.asked.wait())
        announcing = asyncio.create_task(_announce(server, services, listeners, ready))
        try:
            await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
            log.info("Ending; running answers get %g seconds", config.shutdown_grace)
            await _drain(services, gauges, config.shutdown_grace, ending)
        finally:
            asked.cancel()
            announcing.cancel()
            server.should_exit = True
            server.exit_requested.set()
            await asyncio.gather(serving, asked, announcing, return_exceptions=True)
        serving.result()
    log.info("Ended")


def build_services(
    config: Config,
    *,
    address: str | None,
    started_at: float,
    shutdown: Callable[[], None],
) -> Services:
    """The parts of a daemon that runs real models."""
    from ingle.backends.selection import create_backend

    catalog = Catalog.load()
    store = ModelStore(config.paths.models, catalog)
    aliases = AliasTable(config.aliases, config.unknown_model)
    resolve = partial(aliases.resolve, store=store)
    hub = EventHub()
    prepare = ModelPreparer(config, resolve)
    manager = ModelManager(
        resolve=resolve,
        prepare=prepare,
        create_backend=create_backend,
        hub=hub,
        keep_alive=config.keep_alive,
        slots=config.slots,
        max_queue=config.max_queue,
        limits=Limits.of(config),
    )
    return Services(
        config=config,
        store=store,
        catalog=catalog,
        manager=manager,
        generations=GenerationRegistry(manager),
        batches=BatchManager(config.paths.state, at_once=batch_width(config)),
        pulls=PullManager(store.pull, partial(canonical_name, catalog), hub),
        hub=hub,
        prepare=prepare,
        memory=MemorySnapshot.read,
        shutdown=shutdown,
        started_at=started_at,
        aliases=aliases,
        address=address,
    )


def batch_width(config: Config) -> int:
    """How many requests of a batch are asked at a time: enough that no slot waits for the next."""
    return min(2 * config.slots, config.slots + config.max_queue)


def make_server(services: Services) -> Server:
    """uvicorn as we want it: our protocol, no lifespan, no WebSockets, no proxy headers."""
    return Server(
        uvicorn.Config(
            create_app(services),
            http=GuardedProtocol,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=CLOSING_SECONDS,
        )
    )


class Ending:
    """Somebody wants the daemon to end; asking twice means at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.urgent = asyncio.Event()

    def request(self) -> None:
        """Begin the end, or hurry it."""
        if self.asked.is_set():
            self.urgent.set()
        self.asked.set()


async def _announce(
    server: Server,
    services: Services,
    listeners: Listeners,
    ready: Callable[[Services], None] | None,
) -> None:
    await server.listening.wait()
    places = [str(listeners.unix.path)] if listeners.unix is not None else []
    places += [f"http://{listeners.address}"] if listeners.address else []
    log.info("Listening on %s", " and ".join(places))
    gc.freeze()  # what is here stays: no collection between two tokens has to walk it
    if ready is not None:
        ready(services)
    await services.batches.resume()


async def _drain(services: Services, gauges: GaugePublisher, grace: float, ending: Ending) -> None:
    """Let answers finish while the daemon still tells how it is; then end what is left."""
    await services.batches.close()
    closing = asyncio.create_task(services.manager.close(grace))
    urgent = asyncio.create_task(ending.urgent.wait())
    await asyncio.wait({closing, urgent}, return_when=asyncio.FIRST_COMPLETED)
    urgent.cancel()
    if not closing.done():
        await services.manager.close(0.0)
    await closing
    await services.generations.close()
    await services.pulls.close()
    gauges.close()
    services.hub.close()


@contextlib.contextmanager
def _signals(request: Callable[[], None]) -> Generator[None]:
    """SIGINT and SIGTERM ask for the end while the context lasts."""
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        for number in SIGNALS:
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(request))
        yield
        return
    try:
        for number in SIGNALS:
            loop.add_signal_handler(number, request)
    except ValueError:  # not the main thread: whoever runs us there ends us another way
        yield
        return
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
