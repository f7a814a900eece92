"""What a process has computed, and how long it was kept from it by other processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil


class ProcessorTime:
    """Of a process that may have ended."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._waits: dict[str, int] = {}
        self._waited = 0.0

    def computed(self) -> float:
        """Return the CPU seconds so far."""
        try:
            times = psutil.Process(self._pid).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return times.user + times.system

    def waited(self) -> float:
        """Return the seconds so far for which it was ready to run and had no processor.

        Between two calls, the thread that waited longest counts. 0 except on Linux.
        """
        before, self._waits = self._waits, dict(self._thread_waits())
        waits = (wait - before.get(thread, 0) for thread, wait in self._waits.items())
        self._waited += max(waits, default=0) / 1e9
        return self._waited

    def _thread_waits(self) -> Iterator[tuple[str, int]]:
        """Yield each thread with its nanoseconds in a processor's queue."""
        for path in Path(f"/proc/{self._pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                yield path.parent.name, int(path.read_text().split()[1])
