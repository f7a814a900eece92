from __future__ import annotations

import pytest

from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.scheduling.prefill_budget import (
    TILE,
    ChunkBudget,
    needs_short_steps,
    whole_tiles,
)
from ingle.backends.engine.sequence import Sequence


def test_lone_prefill_step_takes_about_two_seconds() -> None:
    budget = ChunkBudget(512)
    assert budget.limit(short=False) == 128
    budget.observe(128, 0.1)
    assert budget.limit(short=False) == 512
    for cost, expected in ((0.002, 512), (0.006, 256), (0.04, 32), (1.0, 32), (0.0, 512)):
        for _ in range(30):
            budget.observe(64, 64 * cost)
        assert budget.limit(short=False) == expected


def test_chunk_size_is_stable_under_small_cost_changes() -> None:
    budget = ChunkBudget(512)
    for _ in range(30):
        budget.observe(256, 256 * 0.0060)
    chunk = budget.limit(short=False)
    for cost in (0.0080, 0.0090, 0.0090, 0.0050):
        budget.observe(256, 256 * cost)
        assert budget.limit(short=False) == chunk == 256


def test_chunk_is_small_while_another_model_waits() -> None:
    budget = ChunkBudget(512)
    budget.observe(512, 0.512)
    budget.contended = True
    assert budget.limit(short=False) == budget.limit(short=True) == pytest.approx(200, abs=1)


@pytest.mark.parametrize(
    ("tokens_per_second", "expected"), [(100, 32), (500, 100), (2000, 400), (100_000, 512)]
)
def test_chunk_beside_decoding_fits_into_the_pause(tokens_per_second: int, expected: int) -> None:
    budget = ChunkBudget(512)
    budget.observe(100, 100 / tokens_per_second)
    assert budget.limit(short=True) == pytest.approx(expected, abs=1)


def test_small_steps_do_not_change_the_estimate() -> None:
    budget = ChunkBudget(512)
    before = budget.limit(short=True)
    budget.observe(1, 10.0)
    assert budget.limit(short=True) == before


def test_budget_adapts_to_a_slower_machine() -> None:
    budget = ChunkBudget(512)
    budget.observe(512, 0.5)
    fast = budget.limit(short=True)
    for _ in range(10):
        budget.observe(fast, 0.8)
    assert budget.limit(short=True) < fast / 2


def test_batch_size_below_the_smallest_chunk_is_respected() -> None:
    assert ChunkBudget(8).limit(short=True) == 8


def _arrived(at: float, priority: Priority = Priority.INTERACTIVE) -> Sequence:
    return Sequence("r", 0, [1], SamplingParams(), priority=priority, arrived_at=at)


@pytest.mark.parametrize(
    ("decoding", "prompts", "expected"),
    [
        ([], [10.0], False),
        ([_arrived(9.5)], [10.0], False),
        ([_arrived(3.0)], [10.0], True),
        ([_arrived(20.0)], [10.0], True),
        ([_arrived(9.5)], [10.0, 30.0], False),
        ([_arrived(9.5), _arrived(3.0)], [10.0], True),
        ([_arrived(3.0, Priority.BATCH)], [10.0], False),
    ],
)
def test_only_answers_of_other_requests_need_short_steps(
    decoding: list[Sequence], prompts: list[float], expected: bool
) -> None:
    assert needs_short_steps(decoding, [_arrived(at) for at in prompts]) is expected


@pytest.mark.parametrize("others", [0, 1, 3, 16, 20])
def test_steps_have_no_partial_tile(others: int) -> None:
    for tokens in range(1, 600):
        whole = whole_tiles(tokens, others)
        assert 0 < whole <= tokens
        assert whole > tokens - TILE
        if tokens >= 2 * TILE:
            assert (whole + others) % TILE == 0
