"""`StepCosts`: the estimated curve of step times."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.engine.speculation.step_costs import StepCosts

MEASURED = {1: 26, 2: 44, 3: 56, 4: 67, 5: 84, 6: 98, 8: 116, 12: 143, 16: 140}
"""Milliseconds of a 1.5B model on two cores."""


def test_measured_step_times_are_reproduced() -> None:
    costs = StepCosts()
    assert not costs.known
    noise = random.Random(1)
    for _ in range(30):
        for size, milliseconds in MEASURED.items():
            costs.observe(size, milliseconds / 1000 * noise.uniform(0.97, 1.03))
    for size in (1, 2, 4, 8):
        assert costs.seconds(size) == pytest.approx(MEASURED[size] / 1000, rel=0.05)
    assert costs.seconds(12) == pytest.approx(0.143, rel=0.05), "more tokens may take less time"
    assert costs.seconds(16) == pytest.approx(0.140, rel=0.05)
    assert 0.098 < costs.seconds(7) < 0.116


def test_common_slowdown_is_learned_from_any_step_size() -> None:
    costs = StepCosts()
    for _ in range(20):
        for size, milliseconds in MEASURED.items():
            costs.observe(size, milliseconds / 1000)
    for _ in range(15):
        costs.observe(1, 3 * 0.026)
    assert costs.seconds(1) == pytest.approx(3 * 0.026, rel=0.05)
    assert costs.seconds(5) / costs.seconds(1) == pytest.approx(84 / 26, rel=0.3)


def test_single_outlier_is_ignored() -> None:
    costs = StepCosts()
    for _ in range(20):
        costs.observe(1, 0.01)
    costs.observe(1, 5.0)
    assert costs.seconds(1) < 0.013
    costs.observe(4, 9.0)
    assert costs.seconds(4) < 0.06, "not even a first measurement"


def test_unseen_sizes_are_estimated_cheap_enough_to_try() -> None:
    """Kernels for a few rows may be slow: 2.3 times the time for two rows predicts little."""
    costs = StepCosts()
    costs.observe(1, 0.01)
    assert costs.seconds(8) == pytest.approx(0.045)
    costs.observe(2, 0.023)
    assert costs.seconds(8) == pytest.approx(0.053)
    costs.observe(8, 0.017)
    assert costs.seconds(5) == pytest.approx(0.020)
    assert costs.seconds(16) == pytest.approx(0.017)
    many = StepCosts()
    many.observe(8, 0.08)
    assert 0.03 < many.seconds(1) < 0.08


@given(
    steps=st.lists(st.tuples(st.integers(1, 40), st.floats(1e-6, 10)), min_size=1, max_size=60),
)
def test_estimated_step_time_is_always_positive(steps: list[tuple[int, float]]) -> None:
    costs = StepCosts()
    for size, seconds in steps:
        costs.observe(size, seconds)
    assert all(0 < costs.seconds(size) < 1000 for size in range(1, 50))
