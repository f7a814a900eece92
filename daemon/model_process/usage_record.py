"""How often each model was used recently, across its processes."""

from __future__ import annotations

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
