from __future__ import annotations

import pytest

from ingle.backends.engine.scheduling.prefill_budget import ChunkBudget


def test_lone_prefill_step_takes_about_a_second() -> None:
    budget = ChunkBudget(512)
    assert budget.limit(decoding=False) == 128
    budget.observe(128, 0.1)
    assert budget.limit(decoding=False) == 512
    for cost, expected in ((0.002, 512), (0.003, 256), (0.02, 32), (1.0, 32), (0.0, 512)):
        for _ in range(30):
            budget.observe(64, 64 * cost)
        assert budget.limit(decoding=False) == expected


def test_chunk_size_is_stable_under_small_cost_changes() -> None:
    budget = ChunkBudget(512)
    for _ in range(30):
        budget.observe(256, 256 * 0.0030)
    chunk = budget.limit(decoding=False)
    for cost in (0.0040, 0.0045, 0.0045, 0.0025):
        budget.observe(256, 256 * cost)
        assert budget.limit(decoding=False) == chunk == 256


def test_chunk_is_small_while_another_model_waits() -> None:
    budget = ChunkBudget(512)
    budget.observe(512, 0.512)
    budget.contended = True
    assert budget.limit(decoding=False) == budget.limit(decoding=True) == pytest.approx(200, abs=1)


@pytest.mark.parametrize(
    ("tokens_per_second", "expected"), [(100, 32), (500, 100), (2000, 400), (100_000, 512)]
)
def test_chunk_beside_decoding_fits_into_the_pause(tokens_per_second: int, expected: int) -> None:
    budget = ChunkBudget(512)
    budget.observe(100, 100 / tokens_per_second)
    assert budget.limit(decoding=True) == pytest.approx(expected, abs=1)


def test_small_steps_do_not_change_the_estimate() -> None:
    budget = ChunkBudget(512)
    before = budget.limit(decoding=True)
    budget.observe(1, 10.0)
    assert budget.limit(decoding=True) == before


def test_budget_adapts_to_a_slower_machine() -> None:
    budget = ChunkBudget(512)
    budget.observe(512, 0.5)
    fast = budget.limit(decoding=True)
    for _ in range(10):
        budget.observe(fast, 0.8)
    assert budget.limit(decoding=True) < fast / 2


def test_batch_size_below_the_smallest_chunk_is_respected() -> None:
    assert ChunkBudget(8).limit(decoding=True) == 8
