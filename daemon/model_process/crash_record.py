"""Counting deaths, so that a model that keeps dying is left alone for a while."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field

LIMIT = 3
WINDOW_SECONDS = 60.0
QUARANTINE_SECONDS = 60.0


class CrashRecord:
    """The recent deaths of one model's process."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque(maxlen=LIMIT)

    def add(self) -> None:
        """Its process died just now."""
        self._deaths.append(time.monotonic())

    def forgive(self) -> None:
        """Forget all of them."""
        self._deaths.clear()

    def quarantine_left(self) -> float:
        """Seconds until it may start again; 0 unless it died three times within a minute."""
        if len(self._deaths) < LIMIT or self._deaths[-1] - self._deaths[0] > WINDOW_SECONDS:
            return 0.0
        return max(0.0, self._deaths[-1] + QUARANTINE_SECONDS - time.monotonic())


@dataclass(frozen=True)
class CrashCounts:
    """What went wrong since the daemon began, by the model's name."""

    deaths: Counter[str] = field(default_factory=Counter[str])
    """Processes that ended by themselves."""

    second_tries: Counter[str] = field(default_factory=Counter[str])
    """Requests that were asked once more, as their model's process had died."""
