"""How often each model was used of late, across its lives."""

from __future__ import annotations

HALF_LIFE = 600.0
"""Seconds after which a use counts half."""
_MOST_HALVINGS = 60.0


class UsageRecord:
    """Uses of one model, of which older ones count less; times are of any clock that only grows."""

    def __init__(self) -> None:
        self.last_used = 0.0
        self.uses = 0.0
        """As they counted at `last_used`."""

    def add(self, now: float) -> None:
        """It is used once more."""
        self.uses = decayed(self.uses, now - self.last_used) + 1.0
        self.last_used = now


def decayed(uses: float, seconds: float) -> float:
    """Return the present weight of `uses` counted `seconds` ago."""
    return uses * 0.5 ** min(max(0.0, seconds) / HALF_LIFE, _MOST_HALVINGS)
