"""The ratio of two servers: the median over pairs of neighbouring runs, with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True)
class Ratio:
    """A median of `pairs` ratios and the ends of its 95 % interval."""

    median: float
    low: float
    high: float
    pairs: int


def median_ratio(pairs: Sequence[tuple[float, float]], *, seed: int = 0) -> Ratio:
    """Return the median of numerator over denominator, with a percentile bootstrap over the pairs.

    Both runs of a pair saw the same machine; drift from pair to pair (heat, neighbours) cancels.
    Raises `ValueError` without pairs or for a figure that is not positive. The same pairs always
    give the same interval.
    """
    if not pairs:
        raise ValueError("a ratio needs at least one pair")
    figures = np.asarray(pairs, dtype=np.float64)
    if not np.all(np.isfinite(figures)) or np.any(figures <= 0):
        raise ValueError("a ratio needs finite figures above zero")
    ratios = figures[:, 0] / figures[:, 1]
    random = np.random.default_rng(seed)
    drawn = random.integers(0, len(ratios), size=(RESAMPLES, len(ratios)))
    medians = np.median(ratios[drawn], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return Ratio(float(np.median(ratios)), float(low), float(high), len(ratios))
