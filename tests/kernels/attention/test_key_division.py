"""Sequences of different lengths in a step: all their keys are divided among its programs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.kernels.attention.conftest import Problem, make

pytestmark = pytest.mark.usefixtures("single_thread")

TILE = 64
"""Keys of a tile for heads of 64."""


def bounded(problem: Problem, context: int = 4000, query: int | None = None) -> Problem:
    """Return it with larger bounds, as in a recorded step: such steps divide all keys."""
    longest = problem.step.longest_query if query is None else query
    step = replace(problem.step, longest_context=context, longest_query=longest)
    return replace(problem, step=step)


def parts(problem: Problem, *, num_sms: int = 16, balance: bool = True) -> list[int]:
    """Return how many parts each token's keys have, and check the output."""
    found, partials, _ = problem.attend(num_sms=num_sms, balance=balance)
    torch.testing.assert_close(found, problem.expected(), rtol=1e-3, atol=1e-3)
    assert partials.log_sums is not None
    assert not partials.log_sums.isnan().any(), "each place is written or marked"
    return [int(count) for count in (partials.log_sums[:, :, 0] > -torch.inf).sum(0)]


def test_long_sequence_among_short_ones_has_most_parts() -> None:
    problem = make([(1, 40), (1, 30), (1, 1500), (1, 64)], kv_heads=1)
    # Eight programs are wanted: two a sequence, if all have as many.
    assert parts(problem, num_sms=4, balance=False) == [1, 1, 2, 1]
    # Of 27 tiles the long sequence has 24, and no part more than four.
    assert parts(problem, num_sms=4) == [1, 1, 6, 1]


@pytest.mark.slow
def test_equal_sequences_have_equal_parts() -> None:
    problem = bounded(make([(1, 640)] * 3, kv_heads=1))
    assert parts(problem, num_sms=4) == [3] * 3
    ((_, grid),) = problem.check(num_sms=4).launches
    assert grid == (3 + 8, 1, 1), "a program for each sequence and each of eight parts"


@pytest.mark.slow
def test_no_part_has_more_than_its_share_of_all_tiles() -> None:
    lengths = [30, 700, 1100, 5]
    problem = make([(1, length) for length in lengths], kv_heads=1)
    tiles = [-(-length // TILE) for length in lengths]
    for num_sms in (2, 5):
        share = -(-sum(tiles) // (2 * num_sms))
        assert parts(problem, num_sms=num_sms) == [-(-each // share) for each in tiles]


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 64, 100])
def test_tiles_outside_the_window_are_not_counted(window: int) -> None:
    bounded(make([(1, 400), (3, 200), (1, 3)], kv_heads=2)).check(num_sms=4, window=window)


@pytest.mark.parametrize("query", [3, 16])
def test_drafts_have_blocks_of_queries(query: int) -> None:
    """64 rows hold eight tokens of eight heads: with a bound of 16 there are blocks without any."""
    tokens = query // 3
    problem = make([(tokens, 200), (1, 300), (query, 90)], group=8, kv_heads=1, pages="q8_0")
    bounded(problem).check(num_sms=4)


def test_sequences_without_keys_or_queries_are_marked_or_skipped() -> None:
    problem = make([(1, 300), (0, 50), (1, 1), (0, 0)], kv_heads=1)
    problem.step.context_lengths[2] = 0
    found, partials, _ = bounded(problem).attend(num_sms=4)
    torch.testing.assert_close(found[:1], problem.expected()[:1], rtol=1e-3, atol=1e-3)
    assert not found[1].any()
    assert partials.log_sums is not None
    assert (partials.log_sums[:, 1] == -torch.inf).all()


@pytest.mark.slow
def test_chunks_of_prompts_have_no_parts() -> None:
    problem = make([(1, 1200), (40, 80), (3, 50), (17, 1100)], kv_heads=1)
    library = problem.check(num_sms=4)
    assert [name.split("-")[0] for name, _ in library.launches] == ["attend_split", "attend_chunk"]


@pytest.mark.slow
def test_more_sequences_than_are_looked_at_at_once() -> None:
    lengths = [(1, 1 + index % 40) for index in range(135)]
    lengths[0] = lengths[127] = lengths[134] = (1, 900)
    found = parts(bounded(make(lengths, kv_heads=1, group=1)), num_sms=32)
    # Of 177 tiles no part has more than three.
    assert [found[index] for index in (0, 127, 134)] == [5, 5, 5]
    assert sum(found) == 132 + 15


def test_parts_fit_into_the_workspace() -> None:
    problem = make([(1, 1500), (3, 200)], kv_heads=1)
    row_bytes = 4 * 2 * (64 + 1) * 4
    found, partials, _ = problem.attend(num_sms=64, workspace_bytes=3 * row_bytes + 17)
    assert partials.splits == 3
    torch.testing.assert_close(found, problem.expected(), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("context", [1024, 1025])
def test_few_keys_are_divided_alike(context: int) -> None:
    ((_, grid),) = bounded(make([(1, 30)] * 2, kv_heads=1), context).check(num_sms=2).launches
    assert (grid[2] > 1) == (context == 1024)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_steps(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)

    def pick(*choices: int) -> int:
        return choices[int(torch.randint(len(choices), (1,), generator=random))]

    chunks: list[tuple[int, int]] = []
    for _ in range(pick(2, 5, 9, 20)):
        tokens = pick(0, 1, 1, 1, 2, 5, 9, 16, 17, 40)
        chunks.append((tokens, tokens + pick(0, 1, 31, 32, 100, 500)))
    problem = make(
        [*chunks, (1, 33)],
        head_size=pick(64, 128),
        group=pick(1, 2, 5, 8, 16),
        kv_heads=pick(1, 2),
        pages=("f16", "bf16", "q8_0", "q4_0")[seed % 4],
        seed=seed,
    )
    window = (None, 1, 40, 128)[pick(0, 1, 2, 3)]
    bounded(problem).check(num_sms=pick(1, 4, 16, 132), window=window)
