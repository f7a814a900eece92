"""Property test: `ModelManager` stays within random memory budgets for random models and requests.

Every request that can be served is served eventually; busy and pinned models are not unloaded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ingle.backends.base.backend import LoadProgress
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.daemon.errors import MemoryExhausted
from ingle.daemon.event_hub import EventHub
from ingle.daemon.lifecycle.model_manager import ModelManager
from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.load_planning.load_planner import LoadPlan
from ingle.daemon.machine.memory_reader import MemorySnapshot
from ingle.daemon.memory.memory_allocator import AllocationTimes
from ingle.daemon.model_process.model_run import ModelState
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel
from tests.harness.local_backend import LocalBackend

NAMES = "abcde"
TIMEOUT = 20.0
ACTIONS = ("ask", "ask", "ask", "let_go", "let_go", "pin", "unpin", "relieve")
sizes = st.builds(MemoryNeeds, st.integers(1, 7), st.integers(0, 7))


class CountedBackend(LocalBackend):
    """A scripted model that reports its start and stop to the machine."""

    def __init__(self, spec: LoadSpec, machine: SimulatedMachine) -> None:
        super().__init__(spec)
        self.name = Path(spec.path).stem
        self.is_loaded = False
        self._machine = machine

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        self._machine.began(self)
        info = await super().start(on_progress)
        self.is_loaded = True
        return info

    async def stop(self, grace: float = 5.0) -> None:
        self._machine.ending(self)
        await super().stop(0)
        self._machine.alive.discard(self)


@dataclass(eq=False)
class PendingRequest:
    """A request that holds a lease on its model until it is released."""

    name: str
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    holds: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        return self.task is not None and self.task.done()


class SimulatedMachine:
    """A simulated machine with a memory budget and models of given sizes; records violations."""

    def __init__(self, budget: MemoryNeeds, needs: list[MemoryNeeds], folder: Path) -> None:
        self.budget = budget
        self.needs = dict(zip(NAMES, needs, strict=True))
        self.folder = folder
        self.alive: set[CountedBackend] = set()
        self.pending: list[PendingRequest] = []
        self.violations: list[str] = []
        self.pinned: set[str] = set()

    async def live(self, steps: list[tuple[str, int]], drain_after: float) -> None:
        """Perform all applicable steps, then release all requests."""
        self.manager = ModelManager(
            Config(paths=find_paths({"INGLE_HOME": os.devnull}), keep_alive=-1),
            resolve=self._model,
            prepare=self._prepare,
            create_backend=lambda spec: CountedBackend(spec, self),
            hub=EventHub(),
            memory=self._read,
            allocation_times=AllocationTimes(drain_after=drain_after, settle=0.0),
        )
        for action, number in steps:
            await getattr(self, f"_{action}")(number)
            await self._until(lambda: all(map(self._is_settled, self.pending)))
        await self._end()

    async def _ask(self, number: int) -> None:
        request = PendingRequest(NAMES[number % len(NAMES)])
        self.pending.append(request)
        request.task = asyncio.create_task(self._use(request))

    async def _let_go(self, number: int) -> None:
        if held := [r for r in self.pending if r.holds and not r.let_go.is_set()]:
            held[number % len(held)].let_go.set()

    async def _pin(self, number: int) -> None:
        if held := [r for r in self.pending if r.holds]:
            name = held[number % len(held)].name
            run = self.manager.find(self._model(name))
            assert run is not None
            if not run.is_ending:
                run.pin(True)
                self.pinned.add(name)

    async def _unpin(self, number: int) -> None:
        if self.pinned:
            name = sorted(self.pinned)[number % len(self.pinned)]
            self.pinned.discard(name)
            run = self.manager.find(self._model(name))
            assert run is not None, "pinned models stay loaded"
            run.pin(False)

    async def _relieve(self, number: int) -> None:
        await self.manager.allocator.evict_for_pressure("Somebody else has it.")

    def began(self, backend: CountedBackend) -> None:
        """Account for a starting model and check the budget."""
        self.alive.add(backend)
        taken = sum((self.needs[b.name] for b in self.alive), MemoryNeeds())
        if not taken.fits_in(self.budget):
            self.violations.append(f"{taken} of {self.budget} taken by {self.alive}")

    def ending(self, backend: CountedBackend) -> None:
        """Check that a stopping model is neither busy nor pinned."""
        if any(r.holds and r.name == backend.name for r in self.pending):
            self.violations.append(f"{backend.name} was ended while busy")
        if backend.name in self.pinned:
            self.violations.append(f"{backend.name} was ended while pinned")

    def _read(self) -> MemorySnapshot:
        """The driver does not attribute GPU memory to processes; host memory is constant."""
        taken = sum(self.needs[b.name].gpu for b in tuple(self.alive) if b.is_loaded)
        return MemorySnapshot(
            total=0, available=self.budget.host, gpu_available=self.budget.gpu - taken
        )

    def _model(self, name: str) -> StoredModel:
        path = self.folder / f"{name}.gguf"
        path.touch()
        return StoredModel(
            name=name,
            path=path,
            size=1,
            sha256="0" * 64,
            licence="",
            description="",
            parameters=1,
            quantization="",
            architecture="llama",
            context=64,
            chat=True,
            sampling={},
            source="test",
        )

    def _prepare(
        self, model: StoredModel, options: LoadOptions, *, available: MemoryNeeds
    ) -> LoadPlan:
        spec = LoadSpec(
            engine="scripted", path=str(model.path), context=64, script='{"reply": "x"}'
        )
        return LoadPlan(spec, self.needs[model.name])

    async def _use(self, request: PendingRequest) -> None:
        try:
            async with self.manager.lease(request.name):
                request.holds = True
                await request.let_go.wait()
                request.holds = False
        except MemoryExhausted:
            others = self.pinned - {request.name}
            remaining = self.budget - sum((self.needs[n] for n in others), MemoryNeeds())
            if self.needs[request.name].fits_in(remaining):
                self.violations.append(
                    f"{request.name} was refused, though it fits into {remaining}"
                )

    def _is_settled(self, request: PendingRequest) -> bool:
        """Whether the request has its lease, or waits for a step of another request."""
        if request.over or (request.holds and not request.let_go.is_set()):
            return True
        run = self.manager.find(self._model(request.name))
        if run is None:
            return False
        waits = run.state is ModelState.STARTING and run.reason.startswith("Waits")
        return waits or (run.is_ending and run.leases > 0)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not condition():
                await asyncio.sleep(0.001)

    async def _end(self) -> None:
        """Release every request, and check that none waits forever."""
        for request in self.pending:
            request.let_go.set()
        try:
            await self._until(lambda: all(request.over for request in self.pending))
        except TimeoutError:
            waiting = [(r.name, r.holds) for r in self.pending if not r.over]
            self.violations.append(f"{waiting} wait for ever")
        self.pinned.clear()
        await self.manager.close(0.0)


@settings(
    max_examples=30,
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    budget=st.builds(MemoryNeeds, st.integers(6, 14), st.integers(4, 12)),
    needs=st.lists(sizes, min_size=len(NAMES), max_size=len(NAMES)),
    steps=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9)), max_size=30),
    drain_after=st.sampled_from([0.0, 1000.0]),
)
def test_random_requests_stay_within_the_memory_budget(
    budget: MemoryNeeds,
    needs: list[MemoryNeeds],
    steps: list[tuple[str, int]],
    drain_after: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    machine = SimulatedMachine(budget, needs, tmp_path_factory.getbasetemp())
    asyncio.run(machine.live(steps, drain_after))
    assert machine.violations == []
