"""`GpuDriver`: the GPUs' driver, opened when it is asked, and asked again after it failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

ASK_AGAIN_SECONDS = 60.0
"""A driver that knew no GPU may have been in the middle of an update, or come late."""


class Closable(Protocol):
    """What is open."""

    def close(self) -> None:
        """Let go of it."""
        ...


T = TypeVar("T", bound=Closable)


class GpuDriver(Generic[T]):
    """Opens a driver and keeps it until `close`; not for two threads at once."""

    def __init__(
        self, open_gpus: Callable[[], T | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open = open_gpus
        self._clock = clock
        self._gpus: T | None = None
        self._ask_again_at: float | None = None

    def get(self) -> T | None:
        """The open driver; None where there is none, or it failed less than a minute ago."""
        if self._gpus is None and (
            self._ask_again_at is None or self._clock() >= self._ask_again_at
        ):
            self._gpus = self._open()
            self._ask_again_at = None
            if self._gpus is None:
                self._ask_again_at = self._clock() + ASK_AGAIN_SECONDS
        return self._gpus

    def failed(self) -> None:
        """It answers nothing any more: open it anew, in a minute."""
        self.close()
        self._ask_again_at = self._clock() + ASK_AGAIN_SECONDS

    def close(self) -> None:
        """Let go of it until it is asked again."""
        if self._gpus is not None:
            self._gpus.close()
            self._gpus = None
