"""Ratios between servers and their confidence intervals."""

from __future__ import annotations

import random

import pytest
from ratio import median_ratio


def test_median_is_of_the_ratios_within_pairs() -> None:
    # The machine slows down tenfold between pairs, which does not change the ratio within a pair.
    pairs = [(110.0, 100.0), (12.0, 10.0), (1.3, 1.0)]
    assert median_ratio(pairs).median == pytest.approx(1.2)


def test_interval_contains_the_median_and_narrows_with_more_pairs() -> None:
    noise = random.Random(7)
    pairs = [(noise.gauss(105, 5), 100.0) for _ in range(200)]
    few, many = median_ratio(pairs[:8]), median_ratio(pairs)
    assert few.low <= few.median <= few.high
    assert many.low <= many.median <= many.high
    assert many.high - many.low < few.high - few.low
    assert many.pairs == 200


@pytest.mark.slow
def test_interval_covers_the_true_ratio_in_95_percent_of_trials() -> None:
    noise = random.Random(11)
    covered = 0
    for trial in range(200):
        pairs = [(noise.lognormvariate(0.0, 0.1), 1.0) for _ in range(15)]
        ratio = median_ratio(pairs, seed=trial)
        covered += ratio.low <= 1.0 <= ratio.high
    assert 180 <= covered <= 199


def test_interval_of_identical_pairs_has_no_width() -> None:
    ratio = median_ratio([(3.0, 2.0)] * 5)
    assert (ratio.low, ratio.median, ratio.high) == (1.5, 1.5, 1.5)


def test_interval_is_deterministic() -> None:
    pairs = [(1.0, 1.1), (1.2, 1.0), (0.9, 1.0), (1.0, 0.8)]
    assert median_ratio(pairs) == median_ratio(pairs)


@pytest.mark.parametrize(
    "pairs", [[], [(1.0, 0.0)], [(-1.0, 1.0)], [(float("nan"), 1.0)], [(1.0, float("inf"))]]
)
def test_invalid_pairs_raise_value_error(pairs: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="a ratio needs"):
        median_ratio(pairs)
