"""Keeps the runs that belong to the daemon, the ended ones for ten minutes."""

from __future__ import annotations

import asyncio
import time
from typing import Generic, Protocol, TypeVar

from ..errors import TooManyGenerations

MAX_RUNNING = 64
KEEP_SECONDS = 600.0
KEEP_BYTES = 64 * 2**20


class DaemonRun(Protocol):
    """A run of the daemon; `ended_at` is on the monotonic clock, None while it runs."""

    id: str
    task: asyncio.Task[None]
    ended_at: float | None

    @property
    def size(self) -> int:
        """Its memory in bytes, as far as that grows with its answer."""
        ...


Run = TypeVar("Run", bound=DaemonRun)


class RunRegistry(Generic[Run]):
    """All `runs` by id, the ended ones for ten minutes or until 64 MiB of newer ones ended."""

    def __init__(
        self,
        *,
        max_running: int = MAX_RUNNING,
        keep_seconds: float = KEEP_SECONDS,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        self.runs: dict[str, Run] = {}
        self._max_running = max_running
        self._keep_seconds = keep_seconds
        self._keep_bytes = keep_bytes
        self._sweep: asyncio.TimerHandle | None = None

    def check_room(self) -> None:
        """Raise `TooManyGenerations` if as many are running as may."""
        running = sum(run.ended_at is None for run in self.runs.values())
        if running >= self._max_running:
            raise TooManyGenerations(
                f"{running} generations are running already.",
                hint="Wait for one to end, or cancel one.",
            )

    def add(self, run: Run) -> None:
        """Keep a run until some time after its end."""
        self.runs[run.id] = run
        run.task.add_done_callback(lambda _: self._forget_old())

    def stop_sweeping(self) -> None:
        """Keep what there is; for the end of the daemon."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _forget_old(self) -> None:
        """Drop runs that are too old or too large, and schedule the next sweep."""
        self.stop_sweeping()
        now = time.monotonic()
        ended = [(run.ended_at, run) for run in self.runs.values() if run.ended_at is not None]
        ended.sort(key=lambda item: item[0])
        size = sum(run.size for _, run in ended)
        for ended_at, run in ended:
            too_old = now - ended_at >= self._keep_seconds
            # The newest stays even if it alone is too large: its client waits for its end.
            if too_old or (size > self._keep_bytes and run is not ended[-1][1]):
                size -= run.size
                del self.runs[run.id]
        if oldest := next((at for at, run in ended if run.id in self.runs), None):
            delay = max(0.0, oldest + self._keep_seconds - now)
            self._sweep = asyncio.get_running_loop().call_later(delay, self._forget_old)
