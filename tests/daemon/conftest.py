"""A complete daemon in the test's event loop, on real sockets, with scripted models."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec
import pytest

from ingle.backends.base.backend import Backend, LoadProgress
from ingle.backends.base.errors import BackendError, WorkerDied, WrongTask
from ingle.backends.base.events import (
    Delta,
    Embedded,
    Event,
    EventSink,
    Finished,
    FinishReason,
    Reranked,
    Started,
    Tokenized,
)
from ingle.backends.base.kv_page_map import PagesSink
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import Gauges, ModelInfo
from ingle.backends.base.requests import (
    EmbedRequest,
    GenerateRequest,
    RerankRequest,
    TokenizeRequest,
)
from ingle.daemon.engines.engine_failures import EngineFailures
from ingle.daemon.event_hub import EventHub
from ingle.daemon.lifecycle.model_manager import ModelManager
from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.load_planning.load_planner import LoadPlan, ModelLoadPlanner
from ingle.daemon.machine.memory_reader import MemorySnapshot
from ingle.daemon.memory.memory_allocator import AllocationTimes
from ingle.daemon.model_process.loaded_model import LoadedModel
from ingle.daemon.routing.egress.egress_gateway import EgressGateway
from ingle.daemon.server.daemon_server import Server, make_server
from ingle.daemon.server.gauge_publisher import GaugePublisher
from ingle.daemon.server.service_factory import build_services
from ingle.daemon.services import Services
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.daemon.transport.sockets import bind_tcp, bind_unix
from ingle.models.catalog import Catalog
from ingle.models.errors import ModelNotFound
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.kv_type import KVType
from ingle.models.metadata.manifest import Manifest, write_manifest
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask
from ingle.models.store.model_store import ModelStore
from tests.harness.local_backend import LocalBackend
from tests.harness.loop_watchdog import LIMIT, LoopWatchdog

MIB = 2**20
GIB = 2**30


@dataclass
class BackendPlan:
    """The behaviour of a `PlannedBackend`; its events are set by the test."""

    start_error: BackendError | None = None
    start_errors: list[BackendError] = field(default_factory=list[BackendError])
    start_gate: asyncio.Event | None = None
    reply: tuple[str, ...] = ("Hel", "lo")
    die_after: int | None = None
    deaths: list[int] = field(default_factory=list[int])
    """One entry per process: the index of the text delta before which it crashes."""

    token_gate: asyncio.Event | None = None
    layers_on_gpu: int = 0
    dies_of_a_fault: bool = False
    """Whether `die` is the fault of its engine."""


class PlannedBackend:
    """A `Backend` whose steps are controlled by the test."""

    def __init__(self, spec: LoadSpec, plan: BackendPlan) -> None:
        self.spec = spec
        self.plan = plan
        self.state: Literal["new", "starting", "ready", "stopping", "dead"] = "new"
        self.gauges = Gauges()
        self.pid: int | None = None
        self.active = 0
        self.dies_at = plan.deaths.pop(0) if plan.deaths else None
        self.stops: list[float] = []
        self.trims = 0
        self.dropped: list[str] = []
        self.pages_sink: PagesSink | None = None
        self._dead = asyncio.Event()
        self._cause = ""

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        self.state = "starting"
        if on_progress is not None:
            on_progress(0.5)
        if self.plan.start_gate is not None:
            await self.plan.start_gate.wait()
        error = self.plan.start_errors.pop(0) if self.plan.start_errors else self.plan.start_error
        if error is not None:
            self.state = "dead"
            raise error
        self.state = "ready"
        return ModelInfo(
            engine="planned",
            device="none",
            architecture="planned",
            parameters=1,
            vocab_size=1,
            trained_context=self.spec.context,
            context=self.spec.context,
            slots=self.spec.slots,
            kv_capacity=self.spec.context,
            has_chat_template=True,
            kv_type=self.spec.kv_type,
            layers=2,
            layers_on_gpu=self.plan.layers_on_gpu,
        )

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        self.active += 1
        try:
            yield Started(request.id, 3)
            for number, text in enumerate(self.plan.reply):
                if number in (self.dies_at, self.plan.die_after):
                    self.die("The model's process died of signal 9.")
                if self.state == "dead":
                    raise WorkerDied(self._cause)
                if self.plan.token_gate is not None:
                    await self.plan.token_gate.wait()
                yield Delta(request.id, 0, text, [number])
            if self.dies_at == len(self.plan.reply):
                self.die("The model's process died of signal 9.")
                raise WorkerDied(self._cause)
            yield Finished(request.id, 0, FinishReason.STOP, len(self.plan.reply))
        finally:
            self.active -= 1

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        async with aclosing(self.generate(request)) as events:
            async for event in events:
                sink([event])

    async def embed(self, request: EmbedRequest) -> Embedded:
        raise WrongTask(ModelTask.GENERATE, ModelTask.EMBED)

    async def rerank(self, request: RerankRequest) -> Reranked:
        raise WrongTask(ModelTask.GENERATE, ModelTask.RERANK)

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        if self.state == "dead":
            raise WorkerDied(self._cause)
        return Tokenized(request.id, list((request.text or "").encode()), [])

    def die(self, cause: str) -> None:
        self.state = "dead"
        self._cause = cause
        self._dead.set()

    async def wait_dead(self) -> WorkerDied:
        await self._dead.wait()
        return WorkerDied(self._cause, is_fault=self.plan.dies_of_a_fault)

    def drop_adapter(self, folder: str) -> None:
        self.dropped.append(folder)

    def watch_pages(self, sink: PagesSink | None) -> None:
        self.pages_sink = sink

    def trim(self) -> None:
        self.trims += 1
        self.gauges = msgspec.structs.replace(self.gauges, kv_memory_bytes=0)

    async def stop(self, grace: float = 5.0) -> None:
        self.stops.append(grace)
        self.die("The model was unloaded.")


def stored_model(name: str, folder: Path, sampling: dict[str, float] | None = None) -> StoredModel:
    """A model entry without a file."""
    return StoredModel(
        name=name,
        path=folder / f"{name}.gguf",
        size=MIB,
        sha256="0" * 64,
        licence="Apache-2.0",
        description="A test's model.",
        parameters=1,
        quantization="Q8_0",
        architecture="llama",
        context=8192,
        chat=True,
        sampling=sampling or {},
        source="test",
    )


def planned_spec(model: StoredModel, options: LoadOptions, *, falls_back: bool) -> LoadSpec:
    """The spec of a planned backend; with `falls_back` for ingle's own engine, or llama.cpp."""
    engine = options.engine or ("cuda" if falls_back else "scripted")
    return LoadSpec(
        engine=engine,
        path=str(model.path),
        context=min(max(options.context or 4096, options.least_context or 0), 8192),
        kv_type=options.kv_type or KVType.F16,
        tensor_parallel=options.tensor_parallel or 1,
        may_fall_back=options.engine is None and falls_back,
    )


@dataclass
class ManagerHarness:
    """A `ModelManager` with planned backends and simulated memory."""

    manager: ModelManager
    hub: EventHub
    plans: dict[str, BackendPlan]
    backends: list[PlannedBackend]
    sizes: dict[str, int]
    memory: dict[str, Any]
    missing: set[str]
    gpu_sizes: dict[str, int | tuple[int, ...]]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; fails after a minute."""
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.002)

    def loaded(self) -> list[LoadedModel]:
        return self.manager.loaded()

    def states(self) -> dict[str, str]:
        return {model.name: model.state.value for model in self.manager.loaded()}


@pytest.fixture
async def make_manager(tmp_path: Path) -> AsyncGenerator[Callable[..., ManagerHarness]]:
    """Create managers with the models `a`, `b` and `c` of 1 GiB each, on a machine with 10 GiB
    free."""
    created: list[ManagerHarness] = []

    def make(
        *,
        keep_alive: float = 60.0,
        abandon_after: float = 10.0,
        allocation_times: AllocationTimes = AllocationTimes(settle=0.0),  # noqa: B008
        engine_failures: EngineFailures | None = None,
        create_backend: Callable[[LoadSpec], Backend] | None = None,
        **settings: Any,
    ) -> ManagerHarness:
        plans = {name: BackendPlan() for name in "abc"}
        sizes = dict.fromkeys("abc", GIB)
        gpu_sizes: dict[str, int | tuple[int, ...]] = dict.fromkeys("abc", 0)
        memory: dict[str, Any] = {"total": 20 * GIB, "available": 10 * GIB}
        backends: list[PlannedBackend] = []
        hub = EventHub()

        def prepare(
            model: StoredModel, options: LoadOptions, *, available: MemoryNeeds
        ) -> LoadPlan:
            spec = planned_spec(model, options, falls_back=engine_failures is not None)
            on_gpus = gpu_sizes[model.name]
            first, *others = on_gpus if isinstance(on_gpus, tuple) else (on_gpus,)
            return LoadPlan(spec, MemoryNeeds(sizes[model.name], first, tuple(others)))

        def create(spec: LoadSpec) -> Backend:
            backend = PlannedBackend(spec, plans[Path(spec.path).stem])
            backends.append(backend)
            return backend

        missing: set[str] = set()

        def resolve(name: str) -> StoredModel:
            if name in missing or name not in plans:
                raise ModelNotFound("No such model.")
            return stored_model(name, tmp_path)

        for name in plans:
            (tmp_path / f"{name}.gguf").touch()  # unless the test has written it
        paths = find_paths({"INGLE_HOME": str(tmp_path)})
        manager = ModelManager(
            Config(paths=paths, keep_alive=keep_alive, **settings),
            resolve=resolve,
            prepare=prepare,
            create_backend=create_backend or create,
            hub=hub,
            abandon_after=abandon_after,
            memory=lambda: msgspec.convert(memory, MemorySnapshot),
            allocation_times=allocation_times,
            engine_failures=engine_failures,
        )
        harness = ManagerHarness(manager, hub, plans, backends, sizes, memory, missing, gpu_sizes)
        created.append(harness)
        return harness

    yield make
    for harness in created:
        await harness.manager.close(0.0)


@dataclass
class RunningDaemon:
    """A daemon under test, and clients connected to it."""

    services: Services
    server: Server
    socket: Path
    port: int
    tcp: httpx.AsyncClient
    unix: httpx.AsyncClient
    shutdowns: list[float] = field(default_factory=list[float])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def events(self, method: str, path: str, **kwargs: Any) -> list[tuple[str, Any]]:
        """All events of a stream as pairs of name and data."""
        return [event async for event in self.stream(method, path, **kwargs)]

    async def stream(
        self, method: str, path: str, **kwargs: Any
    ) -> AsyncGenerator[tuple[str, Any], None]:
        async with self.unix.stream(method, path, **kwargs) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["content-type"].startswith("text/event-stream")
            name = ""
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ")
                    yield name, data if data == "[DONE]" else json.loads(data)
                    name = ""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; fails after a minute."""
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.002)

    @property
    def leases(self) -> int:
        """The number of requests that currently lease a model."""
        models = self.services.store.list()
        runs = [self.services.manager.find(model) for model in models]
        return sum(run.leases for run in runs if run is not None)


def install(store: ModelStore, name: str, sampling: dict[str, float] | None = None) -> None:
    """Install a model with a manifest and an empty file."""
    folder = store.root.joinpath(*name.split(":"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.gguf").write_bytes(b"GGUF")
    write_manifest(
        folder,
        Manifest(
            name=name,
            file="model.gguf",
            size=4,
            sha256="0" * 64,
            licence="Apache-2.0",
            description="A test's model.",
            parameters=1,
            quantization="Q8_0",
            architecture="llama",
            context=4096,
            chat=True,
            sampling=sampling or {},
            source="test",
        ),
    )


@pytest.fixture(scope="session", autouse=True)
def parse_catalog_once() -> Iterator[None]:
    """Parse the catalog that ships with ingle once for all daemons."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Catalog, "load", cache(Catalog.load))
        yield


DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]


@pytest.fixture
def loop_watchdog() -> Iterator[LoopWatchdog]:
    """Fails the test if a callback of its daemon holds the event loop.

    The limit is ten times that of `test_held_loop`, which tries again: this one must not depend
    on how fast the machine is.
    """
    watchdog = LoopWatchdog(10 * LIMIT)
    with watchdog.installed():
        yield watchdog
    assert not watchdog.held, "\n".join(map(str, watchdog.held))


async def _close(services: Services, gauges: GaugePublisher) -> None:
    await services.warmer.close()
    await services.batches.close()
    await services.documents.close()
    await services.manager.close(0.0)
    await services.generations.close()
    await services.pulls.close()
    services.router.close()
    gauges.close()
    services.hub.close()


@pytest.fixture
def run_daemon(ingle_home: Path, loop_watchdog: LoopWatchdog) -> DaemonFactory:
    """Start a daemon whose installed model `echo:1` gives scripted answers.

    With `prepares_files` its models are real files, named by their paths.
    """

    @asynccontextmanager
    async def start(
        *,
        script: dict[str, Any] | None = None,
        create_backend: Callable[[LoadSpec], Backend] = LocalBackend,
        pull: Callable[..., StoredModel] | None = None,
        sampling: dict[str, float] | None = None,
        prepares_files: bool = False,
        egress: EgressGateway | None = None,
        **settings: Any,
    ) -> AsyncGenerator[RunningDaemon]:
        paths = find_paths({"INGLE_HOME": str(ingle_home)})
        paths.make_private()
        config = replace(Config(paths=paths, default_model="echo:1"), **settings)
        tcp, unix = bind_tcp("127.0.0.1", 0), bind_unix(config.socket, paths)
        port: int = tcp.getsockname()[1]
        shutdowns: list[float] = []
        scripted = ScriptedPreparer(script or {}, config.slots)
        services = build_services(
            config,
            make_preparer=ModelLoadPlanner if prepares_files else lambda *_, **__: scripted,
            create_backend=create_backend,
            pull=pull,
            shutdown=lambda: shutdowns.append(time.monotonic()),
            started_at=time.monotonic(),
            address=f"127.0.0.1:{port}",
            egress=egress,
        )
        install(services.store, "echo:1", sampling)
        with loop_watchdog.watching():
            gauges = GaugePublisher(services)
            server = make_server(services)
            serving = asyncio.create_task(server.serve(sockets=[tcp, unix.socket]))
            await server.listening.wait()
            await services.batches.resume()
        try:
            async with _clients(port, config.socket) as (over_tcp, over_unix):
                clients = (over_tcp, over_unix)
                yield RunningDaemon(services, server, config.socket, port, *clients, shutdowns)
        finally:
            await _close(services, gauges)
            for _ in range(3):  # until the connections know that their clients are gone
                await asyncio.sleep(0)
            server.should_exit = True
            server.exit_requested.set()
            await serving
            unix.close()
            tcp.close()

    return start


class ScriptedPreparer:
    """Plan every model for the scripted engine, with a context of 512 by default."""

    def __init__(self, script: dict[str, Any], slots: int) -> None:
        self._script = json.dumps(script)
        self._slots = slots

    def __call__(
        self, model: StoredModel, options: LoadOptions, *, available: MemoryNeeds
    ) -> LoadPlan:
        spec = LoadSpec(
            engine="scripted",
            path=str(model.path),
            context=max(options.context or 512, options.least_context or 0),
            slots=self._slots,
            kv_type=options.kv_type or KVType.F16,
            script=self._script,
        )
        return LoadPlan(spec, MemoryNeeds(MIB + 64 * spec.context))


@asynccontextmanager
async def _clients(
    port: int, socket: Path
) -> AsyncGenerator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    transport = httpx.AsyncHTTPTransport(uds=str(socket))
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as tcp,
        httpx.AsyncClient(base_url="http://localhost", transport=transport, timeout=60) as unix,
    ):
        yield tcp, unix


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncGenerator[RunningDaemon]:
    """A daemon whose model generates "Hello from the scripted model."."""
    async with run_daemon() as running:
        yield running


RawRequest = Callable[..., Awaitable[bytes]]


@pytest.fixture
def raw() -> RawRequest:
    """Send bytes over a new connection (TCP for a port, unix for a path); returns the response.

    The connection stays open for writing, as if the client still had a body to send.
    """

    async def request(where: int | Path, content: bytes) -> bytes:
        if isinstance(where, int):
            reader, writer = await asyncio.open_connection("127.0.0.1", where)
        else:
            reader, writer = await asyncio.open_unix_connection(str(where))
        try:
            writer.write(content)
            async with asyncio.timeout(60):
                head = await reader.readuntil(b"\r\n\r\n")
                length = [
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ]
                return head + (await reader.readexactly(length[0]) if length else b"")
        finally:
            writer.close()

    return request
