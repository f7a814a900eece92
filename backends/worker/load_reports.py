"""Reports the progress of a load, and that a slow disk still delivers."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from ingle.models.failpoints import failpoint

from .worker_protocol import FromWorker, Loading

_AGAIN_AFTER = 1.0
_LOOK_EVERY = 2.0


class LoadReports:
    """Sends whole percents, since llama.cpp calls once a tensor, and the same one every second.

    From the first report to `close` it also sends the last one while the process reads from disk,
    so that what sends nothing for long has stopped.
    """

    def __init__(
        self, send: Callable[[FromWorker], None], blocks_read: Callable[[], int] | None = None
    ) -> None:
        """`blocks_read` grows with what this process has read from disk."""
        self._send = send
        self._blocks_read = blocks_read or _blocks_read
        self._percent = -1
        self._sent_at = 0.0
        self._closed = threading.Event()
        self._watch: threading.Thread | None = None

    def __call__(self, fraction: float) -> None:
        """Report the fraction that is loaded; 1 for each step after that, too."""
        percent, now = int(fraction * 100), time.monotonic()
        if percent == self._percent and now - self._sent_at < _AGAIN_AFTER:
            return
        if percent != self._percent:
            failpoint("worker.load")
        self._percent, self._sent_at = percent, now
        self._send(Loading(percent / 100))
        if self._watch is None:
            self._watch = threading.Thread(target=self._watch_disk, name="load watch", daemon=True)
            self._watch.start()

    def close(self) -> None:
        """Send nothing any more."""
        self._closed.set()
        if self._watch is not None:
            self._watch.join()

    def _watch_disk(self) -> None:
        before = self._blocks_read()
        while not self._closed.wait(_LOOK_EVERY):
            read = self._blocks_read()
            if read != before:
                before = read
                self._send(Loading(self._percent / 100))


def _blocks_read() -> int:
    """With page faults, since not every file system counts blocks; 0 on Windows."""
    if sys.platform == "win32":
        return 0
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_inblock + used.ru_majflt
