"""How elements are divided among ranks."""

from __future__ import annotations

MOST_RANKS = 8
"""Devices that one model is divided among."""


def share(total: int, rank: int, count: int, unit: int = 1) -> range:
    """The part of `total` elements that a rank has, in whole units; they differ by one at most."""
    units = total // unit
    return range(units * rank // count * unit, units * (rank + 1) // count * unit)
