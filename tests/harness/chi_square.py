"""Whether counted transitions between tokens have the probabilities that they should have."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Probabilities = NDArray[np.float64]


def deviation(counts: NDArray[np.int64], transitions: Probabilities) -> float:
    """Return Pearson's chi-square of all rows in standard deviations (Wilson and Hilferty 1931)."""
    expected = counts.sum(axis=1, keepdims=True) * transitions
    assert not counts[transitions == 0].any(), "an impossible token was sampled"
    tested = expected >= 5
    square = float((((counts - expected) ** 2)[tested] / expected[tested]).sum())
    freedom = int((tested.sum(axis=1) - 1).clip(min=0).sum())
    assert freedom > 100
    spread = 2 / (9 * freedom)
    return ((square / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
