"""A model divided among processes, in a confined worker: its answers, and what ends with a rank."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.errors import BackendError, WorkerDied
from ingle.backends.base.events import Delta, Event
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.models.kv_type import KVType
from tests.backends.cuda.conftest import make_model  # noqa: F401  # pyright: ignore[reportUnusedImport]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks end together on Linux only")


MakeWorker = Callable[..., WorkerProcess]


@pytest.fixture
async def make_worker(
    make_model: Callable[..., Path],  # noqa: F811
    tmp_path: Path,
) -> AsyncIterator[MakeWorker]:
    """Return a factory of workers with a model for so many ranks; they are ended after the test.

    With `stages` the model is divided by layers.
    """
    workers: list[WorkerProcess] = []

    def make(count: int, stages: tuple[int, ...] = ()) -> WorkerProcess:
        spec = LoadSpec(
            engine="cuda",
            path=str(make_model(layers=4)),
            context=512,
            slots=4,
            threads=1,
            device="cpu",
            kv_type=KVType.F32,
            tensor_parallel=count,
            stages=stages,
            speculation="off",
            kernel_cache=str(tmp_path),
        )
        workers.append(WorkerProcess(spec))
        return workers[-1]

    yield make
    for worker in workers:
        await worker.stop(grace=0)


def ask(tokens: int = 24, prompt: int = 3) -> GenerateRequest:
    params = SamplingParams(temperature=0.0)
    return GenerateRequest(
        id="r",
        prompt=[2 + i % 90 for i in range(prompt)],
        sampling=params,
        max_tokens=tokens,
        ignore_eos=True,
    )


async def text_of(worker: WorkerProcess, request: GenerateRequest) -> str:
    events = [event async for event in stream_events(worker, request)]
    return "".join(event.text for event in events if isinstance(event, Delta))


def ranks_of(worker: WorkerProcess) -> list[psutil.Process]:
    """Return the processes of the worker's ranks, the first one's before the others."""
    own = psutil.Process(worker.pid)
    children = own.children(recursive=True)
    return [own, *(each for each in children if "ingle.backends.cuda.parallel" in each.cmdline())]


async def ends(processes: list[psutil.Process]) -> None:
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes):
        await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "stages"), [(2, ()), (4, ()), (2, (1, 3)), (4, (1, 1, 1, 1))])
async def test_confined_ranks_answer_as_one_process(
    make_worker: MakeWorker, count: int, stages: tuple[int, ...]
) -> None:
    texts: list[str] = []
    for divided, layers in ((1, ()), (count, stages)):
        worker = make_worker(divided, layers)
        info = await worker.start()
        texts.append(await text_of(worker, ask()))
        ranks = ranks_of(worker)
        assert len(ranks) == divided
        await worker.stop()
        await asyncio.wait_for(ends(ranks), 10)
    assert info.device.startswith(f"{count} × ")
    assert not stages or info.device.endswith(f", by layers: {' + '.join(map(str, stages))}")
    assert info.layers == 4
    assert texts[0] == texts[1] != ""


@pytest.mark.parametrize(
    ("rank", "prompt", "stages"),
    [
        (1, 3, ()),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((0, 3, ()), (1, 400, ()), (0, 3, (2, 2)), (1, 3, (2, 2)), (1, 400, (2, 2)))
        ),
    ],
)
async def test_death_of_a_rank_is_that_of_the_model(
    make_worker: MakeWorker, rank: int, prompt: int, stages: tuple[int, ...], tmp_path: Path
) -> None:
    """In decoding after a short prompt, or in the prefill of a long one that its stop delays."""
    worker = make_worker(2, stages)
    await worker.start()
    ranks = ranks_of(worker)
    if prompt > 3:
        ranks[rank].suspend()

    async def answer() -> list[Event]:
        found: list[Event] = []
        async for event in stream_events(worker, ask(480 - prompt, prompt)):
            found.append(event)
            if isinstance(event, Delta):
                ranks[rank].kill()
        return found

    running = asyncio.create_task(answer())
    if prompt > 3:
        await asyncio.sleep(0.5)
        assert not running.done()
        ranks[rank].kill()
    with pytest.raises(WorkerDied, match="was killed by SIGKILL"):
        await asyncio.wait_for(running, 30)
    assert not (await worker.wait_dead()).is_fault
    await asyncio.wait_for(ends(ranks), 10)
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
async def test_death_of_a_rank_while_it_loads(make_worker: MakeWorker) -> None:
    worker = make_worker(2)
    starting = asyncio.create_task(worker.start())
    while worker.pid is None or len(ranks := ranks_of(worker)) < 2:
        await asyncio.sleep(0.02)
    ranks[1].kill()
    with pytest.raises(BackendError, match="was killed by SIGKILL"):
        await asyncio.wait_for(starting, 30)
    await asyncio.wait_for(ends(ranks), 10)
