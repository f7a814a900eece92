from __future__ import annotations

import pytest

from ingle.backends.engine.chunk_budget import ChunkBudget


def test_alone_a_prompt_gets_whole_steps() -> None:
    budget = ChunkBudget(512)
    budget.observe(512, 60.0)
    assert budget.limit(decoding=False) == 512


@pytest.mark.parametrize(
    ("tokens_per_second", "expected"), [(100, 32), (500, 100), (2000, 400), (100_000, 512)]
)
def test_beside_others_it_gets_what_fits_into_a_pause(
    tokens_per_second: int, expected: int
) -> None:
    budget = ChunkBudget(512)
    budget.observe(100, 100 / tokens_per_second)
    assert budget.limit(decoding=True) == pytest.approx(expected, abs=1)


def test_small_steps_teach_nothing() -> None:
    budget = ChunkBudget(512)
    before = budget.limit(decoding=True)
    budget.observe(1, 10.0)
    assert budget.limit(decoding=True) == before


def test_it_follows_a_machine_that_slows_down() -> None:
    budget = ChunkBudget(512)
    budget.observe(512, 0.5)
    fast = budget.limit(decoding=True)
    for _ in range(10):
        budget.observe(fast, 0.8)
    assert budget.limit(decoding=True) < fast / 2


def test_a_batch_smaller_than_the_smallest_chunk_is_respected() -> None:
    assert ChunkBudget(8).limit(decoding=True) == 8
