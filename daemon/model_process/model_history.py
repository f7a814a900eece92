"""The recent uses and crashes of a model, across its processes."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field

LIMIT = 3
WINDOW_SECONDS = 60.0
QUARANTINE_SECONDS = 60.0


class CrashRecord:
    """Recent crashes of one model's process."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque(maxlen=LIMIT)

    def add(self) -> None:
        """Record a crash now."""
        self._deaths.append(time.monotonic())

    def clear(self) -> None:
        """Clear the record."""
        self._deaths.clear()

    def quarantine_left(self) -> float:
        """Return the seconds until it may start again; 0 unless it died three times within a
        minute.
        """
        if len(self._deaths) < LIMIT or self._deaths[-1] - self._deaths[0] > WINDOW_SECONDS:
            return 0.0
        return max(0.0, self._deaths[-1] + QUARANTINE_SECONDS - time.monotonic())


@dataclass(frozen=True)
class CrashCounts:
    """Failures since the daemon started, by model name."""

    deaths: Counter[str] = field(default_factory=Counter[str])
    """Processes that crashed."""

    retries: Counter[str] = field(default_factory=Counter[str])
    """Requests that were retried after their model's process had died."""


HALF_LIFE = 600.0
"""Seconds after which a use counts half."""
_MOST_HALVINGS = 60.0


class UsageRecord:
    """Decayed use count of one model; times are of any monotonic clock."""

    def __init__(self) -> None:
        self.last_used = 0.0
        self.uses = 0.0
        """The count at `last_used`."""

    def add(self, now: float) -> None:
        """Count one use."""
        self.uses = decayed(self.uses, now - self.last_used) + 1.0
        self.last_used = now


def decayed(uses: float, seconds: float) -> float:
    """Return the present weight of `uses` counted `seconds` ago."""
    return uses * 0.5 ** min(max(0.0, seconds) / HALF_LIFE, _MOST_HALVINGS)
