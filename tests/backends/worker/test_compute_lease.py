"""`ComputeLease`: models on one machine compute in turns; locks first, then real workers."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.events import Delta
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.worker.compute_lease import (
    LONGEST_WAIT,
    ComputeLease,
    _LockFile,  # pyright: ignore[reportPrivateUsage]
)
from ingle.backends.worker.supervisor.worker_process import WorkerProcess

MakeSpec = Callable[..., LoadSpec]
OpenLease = Callable[..., ComputeLease]
StartWorker = Callable[[LoadSpec], Awaitable[WorkerProcess]]


@pytest.fixture
def open_lease(tmp_path: Path) -> Iterator[OpenLease]:
    """Return a factory of leases of one machine, each with its own files as in other processes."""
    with ExitStack() as leases:

        def open_one(longest_wait: float = 30.0) -> ComputeLease:
            lease = ComputeLease(tmp_path / "lease", longest_wait)
            leases.callback(lease.close)
            return lease

        yield open_one


@pytest.fixture
async def start_worker(tmp_path: Path) -> AsyncIterator[StartWorker]:
    workers: list[WorkerProcess] = []

    async def start(spec: LoadSpec) -> WorkerProcess:
        spec = msgspec.structs.replace(spec, compute_lease=str(tmp_path / "lease"))
        workers.append(worker := WorkerProcess(spec))
        await worker.start()
        return worker

    yield start
    for worker in workers:
        await worker.stop(grace=0)


async def answer(worker: WorkerProcess) -> str:
    request = GenerateRequest(id="r", prompt="Hi")
    return "".join([e.text async for e in stream_events(worker, request) if isinstance(e, Delta)])


def test_lone_lease_does_not_wait(open_lease: OpenLease) -> None:
    lease, idle = open_lease(), open_lease()
    for _ in range(3):
        assert not lease.acquire()
        lease.release()
    assert not idle.acquire()


def test_waiting_lease_is_acquired_after_release(open_lease: OpenLease) -> None:
    first, second = open_lease(), open_lease()
    assert not first.acquire()
    waited: list[bool] = []
    thread = threading.Thread(target=lambda: waited.append(second.acquire()))
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    first.release()
    thread.join(10)
    assert waited == [True]


def test_waiting_lease_is_not_overtaken(open_lease: OpenLease, tmp_path: Path) -> None:
    turns: list[str] = []
    leases = {name: open_lease() for name in "ab"}
    queue = _LockFile(tmp_path / "lease.next")

    def work(name: str, other: str) -> None:
        for _ in range(50):
            leases[name].acquire()
            turns.append(name)
            while turns.count(other) < 50 and queue.try_lock():  # the other is not in line yet
                queue.unlock()
                time.sleep(0.001)
            leases[name].release()

    threads = [threading.Thread(target=work, args=pair) for pair in ("ab", "ba")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    queue.close()
    assert len(turns) == 100
    assert all(left != right for left, right in pairwise(turns))


def test_stuck_holder_is_waited_for_only_once(open_lease: OpenLease) -> None:
    stuck, patient = open_lease(), open_lease(longest_wait=0.05)
    stuck.acquire()
    for _ in range(100):
        assert patient.acquire()
        patient.release()
    stuck.release()
    while patient.acquire():
        patient.release()
    third = open_lease(longest_wait=0.05)
    assert third.acquire(), "the patient one computes under the lock again"


def test_closed_lease_is_free(open_lease: OpenLease, tmp_path: Path) -> None:
    closed, other = ComputeLease(tmp_path / "lease"), open_lease()
    closed.acquire()
    closed.close()
    assert not other.acquire()


def test_lease_files_are_private(open_lease: OpenLease, tmp_path: Path) -> None:
    open_lease()
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"lease", "lease.next"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.glob("lease*"))


def test_lease_timeout_is_shorter_than_the_stall_timeout() -> None:
    """A worker that waits for its turn must not count as stuck."""
    from ingle.backends.worker.supervisor import worker_process

    assert worker_process._WATCH_INTERVAL > 2 * LONGEST_WAIT  # pyright: ignore[reportPrivateUsage]


@pytest.mark.slow
async def test_two_workers_alternate_steps(
    scripted_spec: MakeSpec, start_worker: StartWorker, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    spec = scripted_spec(reply="x" * 5000, context=6000, step_seconds=0.01, trace=str(trace))
    workers = [await start_worker(spec) for _ in range(2)]
    ids = [str(worker.pid) for worker in workers]
    answers = [asyncio.create_task(answer(worker)) for worker in workers]
    lines: list[str] = []
    while not all(lines.count(pid) > 40 for pid in ids):
        assert not any(task.done() for task in answers), "one had all turns"
        await asyncio.sleep(0.05)
        lines = trace.read_text().splitlines() if trace.exists() else []
    for task in answers:
        task.cancel()
    ends = lines[1::2]
    assert lines[::2][: len(ends)] == ends, "a step began before the other's was done"


@pytest.fixture
async def hung_worker(
    scripted_spec: MakeSpec, start_worker: StartWorker, tmp_path: Path
) -> AsyncIterator[WorkerProcess]:
    """Return a worker whose step never ends."""
    trace = tmp_path / "trace"
    worker = await start_worker(scripted_spec(hang_at=0, trace=str(trace)))
    stuck = asyncio.create_task(answer(worker))
    async with asyncio.timeout(10):
        while not trace.exists():
            await asyncio.sleep(0.01)
    yield worker
    await worker.stop(grace=0)
    with pytest.raises(WorkerDied):
        await stuck


async def test_worker_killed_in_its_step_releases_the_lease(
    scripted_spec: MakeSpec, start_worker: StartWorker, hung_worker: WorkerProcess
) -> None:
    waiting = await start_worker(scripted_spec(reply="fine"))
    later = asyncio.create_task(answer(waiting))
    await asyncio.sleep(0.2)
    assert not later.done()
    assert hung_worker.pid is not None
    os.kill(hung_worker.pid, signal.SIGKILL)
    assert await later == "fine"


@pytest.mark.slow
async def test_worker_answers_while_another_is_stuck_in_a_step(
    scripted_spec: MakeSpec, start_worker: StartWorker, hung_worker: WorkerProcess
) -> None:
    patient = await start_worker(scripted_spec(reply="in spite of it"))
    assert await answer(patient) == "in spite of it"
