"""Blocking work that the daemon owns: one job a key, shared by all clients that want its result."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

from .errors import ShuttingDown

REPORT_SECONDS = 0.25

P = TypeVar("P")
R = TypeVar("R")

Work = Callable[[Callable[[P], None], Callable[[], bool]], R]
"""Returns the result: blocks, and calls both arguments in its thread: one with the progress, the
other to learn whether it was cancelled."""


class BackgroundJob(Generic[P, R]):
    """One job in its own thread; followers get the latest progress, not every report."""

    def __init__(
        self,
        name: str,
        progress: P,
        work: Work[P, R],
        *,
        at_once: Callable[[P, P], bool],
        ended: Callable[[P, Exception | None], P],
        on_progress: Callable[[P, bool], None],
    ) -> None:
        """`at_once` says whether the second report must follow the first without a pause.

        `ended` returns the last progress. `on_progress` is called with each that is passed on, and
        whether the job has ended.
        """
        self.progress = progress
        self.cancelled = False
        self._at_once = at_once
        self._ended = ended
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._result: asyncio.Future[R] = self._loop.create_future()
        # If all followers have left before the end, the result is never retrieved.
        self._result.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._news = asyncio.Event()
        self._last_report = 0.0
        self._last = progress
        # Not in the loop's pool, which the daemon's shutdown would wait for.
        threading.Thread(target=self._run, args=(work,), name=name, daemon=True).start()

    @property
    def done(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self._result.done()

    async def follow(self) -> AsyncGenerator[P, None]:
        """Yield the progress now and after each change, until the end."""
        while True:
            news = self._news
            yield self.progress
            if self.done:
                return
            await news.wait()

    async def result(self) -> R:
        """Return the result; raises the error of the work."""
        return await asyncio.shield(self._result)

    def _run(self, work: Work[P, R]) -> None:
        try:
            result = work(self._report, lambda: self.cancelled)
        except Exception as error:
            self._call(self._fail, error)
        else:
            self._call(self._finish, result)

    def _report(self, progress: P) -> None:
        """Pass on a few reports per second; runs in the thread of the job."""
        now = time.monotonic()
        if self._at_once(self._last, progress) or now - self._last_report >= REPORT_SECONDS:
            self._last_report, self._last = now, progress
            self._call(self._show, progress, False)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed: the daemon has ended
            self.cancelled = True

    def _finish(self, result: R) -> None:
        self._result.set_result(result)
        self._show(self._ended(self.progress, None), True)

    def _fail(self, error: Exception) -> None:
        self._result.set_exception(error)
        self._show(self._ended(self.progress, error), True)

    def _show(self, progress: P, ended: bool) -> None:
        self.progress = progress
        self._news.set()
        self._news = asyncio.Event()
        self._on_progress(progress, ended)


class JobTable(Generic[P, R]):
    """The running jobs, by key."""

    def __init__(self) -> None:
        self._jobs: dict[str, BackgroundJob[P, R]] = {}
        self._closing = False

    def join(self, key: str, start: Callable[[], BackgroundJob[P, R]]) -> BackgroundJob[P, R]:
        """Return the running job with this key, or start one; raises `ShuttingDown`."""
        if self._closing:
            raise ShuttingDown("The daemon is shutting down.", hint="Start it again.")
        job = self._jobs.get(key)
        # A cancelled job ends with an error; a new request needs a new one.
        if job is None or job.done or job.cancelled:
            self._jobs = self.running()
            job = self._jobs[key] = start()
        return job

    def find(self, key: str) -> BackgroundJob[P, R] | None:
        """Return the running job with this key, or None."""
        return self.running().get(key)

    def running(self) -> dict[str, BackgroundJob[P, R]]:
        """Return the running jobs; safe in any thread."""
        return {key: job for key, job in list(self._jobs.items()) if not job.done}

    async def close(self, patience: float = 2.0) -> None:
        """Cancel all jobs, and wait for their ends, at most `patience` seconds."""
        self._closing = True
        running = list(self.running().values())
        for job in running:
            job.cancelled = True
        if running:
            waiting = [asyncio.ensure_future(job.result()) for job in running]
            await asyncio.wait(waiting, timeout=patience)
            for future in waiting:
                future.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
