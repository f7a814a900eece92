"""Opens the GPU driver for a reading, and again some time after a failure."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ingle.backends.hardware.nvml import NvmlReader

ASK_AGAIN_SECONDS = 60.0
"""Seconds before a retry: a driver without GPUs may have been updating, or starting."""


class GpuDriver:
    """A driver that stays open only while readings are wanted (`hold`); thread-safe.

    An open driver keeps the GPU of some laptops awake.
    """

    def __init__(
        self,
        open_gpus: Callable[[], NvmlReader | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open = open_gpus
        self._clock = clock
        self._gpus: NvmlReader | None = None
        self._ask_again_at = -math.inf
        self._held = False
        self._lock = threading.Lock()

    @contextmanager
    def opened(self) -> Generator[NvmlReader | None]:
        """Yield the open driver; None if there is none, or it failed less than a minute ago."""
        with self._lock:
            if self._gpus is None and self._clock() >= self._ask_again_at:
                self._gpus = self._open()
                if self._gpus is None:
                    self.failed()
            try:
                yield self._gpus
            finally:
                self._close_unless_held()

    def failed(self) -> None:
        """Close a driver that failed; it is opened again in a minute."""
        self._close()
        self._ask_again_at = self._clock() + ASK_AGAIN_SECONDS

    def hold(self, on: bool) -> None:
        """Set whether more readings will follow; does not wait for one in progress."""
        self._held = on
        if self._lock.acquire(blocking=False):
            try:
                self._close_unless_held()
            finally:
                self._lock.release()

    def _close_unless_held(self) -> None:
        if not self._held:
            self._close()

    def _close(self) -> None:
        if self._gpus is not None:
            self._gpus.close()
            self._gpus = None
