"""Opens the GPU driver on demand, and again some time after a failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

ASK_AGAIN_SECONDS = 60.0
"""Seconds before a retry: a driver without GPUs may have been updating, or starting."""


class Closable(Protocol):
    """An open resource."""

    def close(self) -> None:
        """Release it."""
        ...


T = TypeVar("T", bound=Closable)


class GpuDriver(Generic[T]):
    """Opens a driver and keeps it open until `close`; not thread-safe."""

    def __init__(
        self, open_gpus: Callable[[], T | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open = open_gpus
        self._clock = clock
        self._gpus: T | None = None
        self._ask_again_at: float | None = None

    def get(self) -> T | None:
        """Return the open driver; None if there is none, or it failed less than a minute ago."""
        if self._gpus is None and (
            self._ask_again_at is None or self._clock() >= self._ask_again_at
        ):
            self._gpus = self._open()
            self._ask_again_at = None
            if self._gpus is None:
                self._ask_again_at = self._clock() + ASK_AGAIN_SECONDS
        return self._gpus

    def failed(self) -> None:
        """Record a failure: the driver is opened again in a minute."""
        self.close()
        self._ask_again_at = self._clock() + ASK_AGAIN_SECONDS

    def close(self) -> None:
        """Close it until the next `get`."""
        if self._gpus is not None:
            self._gpus.close()
            self._gpus = None
