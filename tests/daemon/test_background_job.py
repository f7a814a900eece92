"""Jobs of the daemon: their progress, their ends, and the table that shares them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from ingle.daemon.background_job import BackgroundJob, JobTable
from ingle.daemon.errors import ShuttingDown

Job = BackgroundJob[str, int]


class Cancelled(Exception):
    """The work has noticed that it was cancelled."""


class CountingWork:
    """Reports what `steps` has, then returns 42 when the test sets `go`."""

    def __init__(self, *steps: str, error: Exception | None = None, deaf: bool = False) -> None:
        self.go = threading.Event()
        self.runs = 0
        self.ended = threading.Event()
        self._steps = steps
        self._error = error
        self._deaf = deaf

    def __call__(self, report: Callable[[str], None], cancelled: Callable[[], bool]) -> int:
        self.runs += 1
        try:
            for step in self._steps:
                report(step)
            while not self.go.wait(0.005):
                if cancelled() and not self._deaf:
                    raise Cancelled
            if self._error is not None:
                raise self._error
            return 42
        finally:
            self.ended.set()


def ended(progress: str, error: Exception | None) -> str:
    return f"{progress}, {'done' if error is None else f'failed: {error}'}"


def start(work: CountingWork, told: list[tuple[str, bool]] | None = None) -> Job:
    """Start a job whose reports follow at once if they are in capital letters."""

    def tell(progress: str, last: bool) -> None:
        if told is not None:
            told.append((progress, last))

    return BackgroundJob(
        "count",
        "begun",
        work,
        at_once=lambda last, progress: progress.isupper(),
        ended=ended,
        on_progress=tell,
    )


async def followed(job: Job, work: CountingWork, until: str) -> list[str]:
    """What a follower sees if the work goes on once `until` was seen."""
    seen: list[str] = []
    async for progress in job.follow():
        seen.append(progress)
        if progress == until:
            work.go.set()
    return seen


async def test_followers_see_the_present_progress_and_the_end() -> None:
    work, told = CountingWork("A", "B"), list[tuple[str, bool]]()
    job = start(work, told)
    seen = await followed(job, work, "B")
    assert seen[0] == "begun"
    assert seen[-2:] == ["B", "B, done"]
    assert await job.result() == 42
    assert told == [("A", False), ("B", False), ("B, done", True)]
    assert await followed(job, work, "") == ["B, done"], "who comes late sees the end"


async def test_reports_are_thinned_out() -> None:
    work = CountingWork("A", *(f"step {number}" for number in range(1000)), "B")
    told: list[tuple[str, bool]] = []
    await followed(start(work, told), work, "B")
    assert told[0] == ("A", False)
    assert told[-2:] == [("B", False), ("B, done", True)]
    assert len(told) < 100


async def test_failure_reaches_all_who_wait() -> None:
    work = CountingWork("A", error=ValueError("no room"))
    job = start(work)
    waiting = [asyncio.ensure_future(job.result()) for _ in range(2)]
    assert (await followed(job, work, "A"))[-1] == "A, failed: no room"
    for each in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(each, ValueError)
    assert job.done


async def test_job_goes_on_without_followers() -> None:
    work = CountingWork("A")
    job = start(work)
    waiting = asyncio.ensure_future(job.result())
    await asyncio.sleep(0)
    waiting.cancel()
    async for _ in job.follow():
        break
    work.go.set()
    assert await job.result() == 42


async def test_second_start_joins_the_running_job() -> None:
    jobs, work = JobTable[str, int](), CountingWork("A")
    job = jobs.join("a", lambda: start(work))
    assert jobs.join("a", lambda: start(work)) is job
    assert jobs.find("a") is job
    other = CountingWork()
    assert jobs.join("b", lambda: start(other)) is not job
    work.go.set()
    assert await job.result() == 42
    assert work.runs == 1
    assert list(jobs.running()) == ["b"]
    assert jobs.find("a") is None
    assert jobs.join("a", lambda: start(work)) is not job, "it has ended"
    await jobs.close()


async def test_cancelled_job_is_not_joined() -> None:
    jobs, first, second = JobTable[str, int](), CountingWork("A"), CountingWork()
    job = jobs.join("a", lambda: start(first))
    job.cancelled = True
    assert jobs.join("a", lambda: start(second)) is not job
    with pytest.raises(Cancelled):
        await job.result()
    assert job.progress.startswith("A, failed")
    assert jobs.find("a") is not None
    second.go.set()
    assert await jobs.join("a", lambda: start(second)).result() == 42
    assert second.runs == 1


async def test_close_cancels_jobs_and_starts_none() -> None:
    jobs = JobTable[str, int]()
    running = [jobs.join(name, lambda: start(CountingWork("A"))) for name in "ab"]
    await jobs.close()
    assert [job.done for job in running] == [True, True]
    for job in running:
        with pytest.raises(Cancelled):
            await job.result()
    with pytest.raises(ShuttingDown) as refused:
        jobs.join("c", lambda: start(CountingWork()))
    assert refused.value.hint


async def test_close_does_not_wait_for_work_that_goes_on() -> None:
    jobs, work = JobTable[str, int](), CountingWork(deaf=True)
    job = jobs.join("a", lambda: start(work))
    await jobs.close(patience=0.02)
    assert not job.done
    work.go.set()
    assert await job.result() == 42


def test_work_is_cancelled_after_the_loop_has_closed() -> None:
    """A report finds no daemon any more: the work ends itself, and nothing is raised."""
    late = threading.Event()

    class LateWork(CountingWork):
        def __call__(self, report: Callable[[str], None], cancelled: Callable[[], bool]) -> int:
            late.wait()
            report("A")
            return super().__call__(report, cancelled)

    work = LateWork()

    async def begin() -> Job:
        return start(work)

    job = asyncio.run(begin())
    late.set()
    assert work.ended.wait(10)
    assert job.cancelled
