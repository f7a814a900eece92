"""Faults of a simulated GPU in real worker processes: the next engine takes over."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kernel_harness
import msgspec
import psutil
import pytest
from gpu.fake_driver import build_fake_driver
from gpu.small_llama import write_small_llama
from kernel_harness.simulated_gpu import Fault, Kind

from ingle.backends.base.backend import stream_events
from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.events import Delta
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.daemon.engines.engine_failures import EngineFailures

if TYPE_CHECKING:
    from ..conftest import ManagerHarness

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed"),
]

MakeManager = Callable[..., "ManagerHarness"]

HARNESS = Path(next(iter(kernel_harness.__path__)))
TOKENS = 8
SECONDS = 600.0
"""A run with a fault ends within this, on a machine that does much else."""


class Simulation:
    """A manager whose own engine runs on a simulated GPU, and the workers that it started."""

    def __init__(self, make: MakeManager, failures: EngineFailures, cache: Path) -> None:
        self.failures = failures
        self.workers: list[WorkerProcess] = []
        self._cache = cache
        self.manager = make(engine_failures=failures, create_backend=self._create).manager

    def _create(self, spec: LoadSpec) -> WorkerProcess:
        small = msgspec.structs.replace(
            spec,
            context=128,
            slots=2,
            batch=32,
            threads=1,
            confine=False,
            kernel_cache=str(self._cache / "simulated"),
            speculation="off",
        )
        self.workers.append(WorkerProcess(small))
        return self.workers[-1]

    async def answer(self, streamed: list[str] | None = None) -> str:
        """Return the model's answer; its parts are appended to `streamed` as they come."""
        streamed = [] if streamed is None else streamed
        request = GenerateRequest(
            id="r",
            prompt="the thin cat",
            max_tokens=TOKENS,
            ignore_eos=True,
            sampling=SamplingParams(temperature=0),
        )
        async with asyncio.timeout(SECONDS), self.manager.lease("a") as lease:
            async for event in stream_events(lease.backend, request):
                if isinstance(event, Delta):
                    streamed.append(event.text)
        return "".join(streamed)

    @property
    def engines(self) -> list[str]:
        return [worker.spec.engine for worker in self.workers]


@pytest.fixture(scope="module")
def cache(pytestconfig: pytest.Config) -> Path:
    assert pytestconfig.cache is not None
    return pytestconfig.cache.mkdir("kernels").parent


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_fake_driver(tmp_path_factory.mktemp("driver"))


MakeSimulation = Callable[..., Simulation]


@pytest.fixture
def simulate(
    make_manager: MakeManager,
    tmp_path: Path,
    cache: Path,
    driver: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> MakeSimulation:
    """Return a factory."""

    def simulate(case: Case | None = None) -> Simulation:
        write_small_llama(tmp_path / "a.gguf", kind="Q4_0", width=256, layers=1)
        wanted: dict[str, Any] = {"driver": str(driver), "cache": str(cache)}
        if case is not None:
            wanted |= {"serving": case.serving, "kind": case.kind, "number": case.number}
            wanted["fault"] = asdict(case.fault)
        monkeypatch.setenv("CUDA_SIMULATION", json.dumps(wanted))
        folders = HARNESS / "worker_site", HARNESS.parent
        monkeypatch.setenv("PYTHONPATH", ":".join(map(str, folders)))
        failures = EngineFailures(tmp_path / "failures.json", lambda: "Simulated GPU")
        return Simulation(make_manager, failures, cache)

    return simulate


async def test_answer_equals_that_of_llama_cpp(simulate: MakeSimulation) -> None:
    simulation = simulate()
    ours = await simulation.answer()
    simulation.failures.add("cuda", simulation.workers[0].spec.path, "None.")
    await simulation.manager.close(0.0)
    simulation.manager._closing = False  # pyright: ignore[reportPrivateUsage]  # as a new daemon
    assert await simulation.answer() == ours
    assert simulation.engines == ["cuda", "llama.cpp"]


@dataclass(frozen=True)
class Case:
    """A fault at the `number`-th point of its kind, and a pattern of the reason that users read."""

    kind: Kind
    number: int
    fault: Fault
    reason: str
    serving: bool = True
    recorded: bool = True


HANG = Fault(hangs=True)
LOST = Fault(46, lasts=True)
MEMORY = Fault(2)
CASES = {
    "error while loading": Case("call", 400, Fault(719, lasts=True), "(?i)launch.fail", False),
    "fault while loading": Case("kernel", 60, Fault(), "illegal memory access", False),
    "hang while loading": Case("kernel", 60, HANG, "did not end within 20 seconds", False),
    "no memory while loading": Case("allocation", 90, MEMORY, "not fit into", False, False),
    "fault in prefill": Case("kernel", 4, Fault(), "illegal memory access"),
    "fault while decoding": Case("kernel", 120, Fault(), "illegal memory access"),
    "hang in prefill": Case("kernel", 4, HANG, "did not end within"),
    "hang while decoding": Case("kernel", 120, HANG, "did not end within"),
    "lost in prefill": Case("call", 4, LOST, "busy or unavailable"),
    "lost while decoding": Case("call", 60, LOST, "busy or unavailable"),
    "no memory in prefill": Case("allocation", 4, MEMORY, "out of memory"),
    "no memory while decoding": Case("allocation", 14, MEMORY, "out of memory"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_other_engine_takes_over(
    simulate: MakeSimulation, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    """Either it gives the whole answer, or the client reads why there is only its beginning."""
    simulation = simulate(case)
    streamed: list[str] = []
    error = ""
    try:
        await simulation.answer(streamed)
    except WorkerDied as died:
        error = died.message
    right = await simulation.answer()
    assert simulation.engines == ["cuda", "llama.cpp"]
    pid = simulation.workers[0].pid
    assert pid is None or not psutil.pid_exists(pid)
    found = "".join(streamed)
    if error:
        assert case.serving
        assert streamed, "nothing had been streamed, so it could have been repeated"
        assert re.search(case.reason, error)
        assert right.startswith(found)
    else:
        assert found == right
    reasons = [failure.reason for failure in simulation.failures.all()]
    assert len(reasons) == case.recorded
    assert all(re.search(case.reason, reason) for reason in reasons)
