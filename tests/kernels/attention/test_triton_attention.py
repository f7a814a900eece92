"""The Triton attention kernels, interpreted, against float32 attention over the same pages.

Tolerances are those of FlashInfer's tests: 1e-3 for float16, 1e-2 for bfloat16.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from ingle.kernels.kv_cache.kv_pages import QuantizedKVPages
from tests.kernels.attention.conftest import make

pytestmark = pytest.mark.usefixtures("single_thread")


@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 16])
def test_few_query_tokens(tokens: int) -> None:
    lengths = (1, 31, 32, 33, 64, 95, 96, 160)
    chunks = [(tokens, length) for length in lengths if length >= tokens]
    library = make([*chunks, (0, 40), (0, 0)], seed=tokens).check()
    assert [name.split("-")[0] for name, _ in library.launches] == ["attend_split"]


@pytest.mark.parametrize("group", [1, 3, 4, 7, 8, 16])
def test_grouped_query_attention(group: int) -> None:
    make([(1, 33), (5, 40)], group=group).check()
    make([(37, 37), (1, 70)], group=group, kv_heads=1).check()


@pytest.mark.parametrize("head_size", [64, 80, 96, 128, 256, 512])
@pytest.mark.parametrize("pages", ["f16", "bf16", "q8_0", "q4_0"])
def test_head_sizes_and_page_types(head_size: int, pages: str) -> None:
    make([(2, 70), (1, 33)], head_size=head_size, pages=pages).check()
    make([(35, 70)], head_size=head_size, pages=pages, kv_heads=1).check()


@pytest.mark.parametrize(
    "pages", [*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("f16", "bf16")), "q8_0"]
)
@pytest.mark.parametrize("heads", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [256, pytest.param(512, marks=pytest.mark.slow)])
def test_values_that_are_the_ends_of_keys(size: int, heads: int, pages: str) -> None:
    """More heads than rows are divided among programs, which read the same key."""
    latents = partial(make, head_size=size, lead=64, kv_heads=1, group=heads, pages=pages)
    library = latents([(2, 70), (1, 33)]).check()
    assert library.launches[0][1][1] == (2 if heads == 20 else 1)
    latents([(35, 70)]).check()
    latents([(1, 300)]).check(num_sms=200)


@pytest.mark.parametrize("pages", ["f16", "bf16", "q8_0", "q4_0"])
def test_bfloat16_queries(pages: str) -> None:
    make([(2, 70), (1, 33)], query="bf16", pages=pages).check()
    make([(35, 70)], query="bf16", pages=pages).check()


@pytest.mark.parametrize("window", [1, 2, 32, 33, 64, 1000])
def test_sliding_window_includes_the_query_itself(window: int) -> None:
    make([(1, 200), (7, 164), (1, 2)]).check(window=window)
    make([(70, 230), (20, 20)]).check(window=window)


def test_soft_cap() -> None:
    make([(1, 100), (7, 64)]).check(soft_cap=0.7)
    make([(40, 70)], pages="q8_0").check(soft_cap=0.7, window=20)


@pytest.mark.parametrize("pages", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("window", [None, 33])
def test_sinks_take_their_share_of_each_softmax_once(pages: str, window: int | None) -> None:
    """Also of the smallest scores and the largest, and where keys are split."""
    sinks = torch.tensor([0.5, -30.0, 9.0, 2.0])
    make([(1, 300), (7, 64), (1, 1)], pages=pages).check(window=window, sinks=sinks)
    make([(40, 70), (1, 500)], pages=pages).check(window=window, sinks=sinks)
    make([(1, 500), (2, 40)], pages=pages).check(num_sms=200, sinks=sinks)


@pytest.mark.slow
@pytest.mark.parametrize("pages", ["q8_0", "q4_0"])
@pytest.mark.parametrize("head_size", [64, 128])
def test_key_bias_that_is_not_stored_with_the_keys(head_size: int, pages: str) -> None:
    make([(1, 300), (3, 45)], head_size=head_size, pages=pages, is_biased=True, group=7).check()
    make([(35, 70)], head_size=head_size, pages=pages, is_biased=True).check()


def test_key_bias_at_large_positions() -> None:
    """The rotation to the start of a tile, composed with that within it, equals the tables."""
    make([(2, 20_000)], pages="q8_0", is_biased=True, kv_heads=1).check(window=90)
    make([(35, 20_000)], pages="q4_0", is_biased=True, kv_heads=1).check(window=90)


def test_chunk_after_a_cached_prefix() -> None:
    """Tiles before the chunk have no mask, those within it have one."""
    library = make([(150, 400)], kv_heads=1).check()
    assert [name.split("-")[0] for name, _ in library.launches] == ["attend_chunk"]


def test_many_chunks_in_one_grid() -> None:
    lengths = [(17, 17), (1, 90), (64, 64), (0, 5), (33, 100), (65, 65), (2, 2), (0, 0), (129, 130)]
    make(lengths, kv_heads=1, group=4).check()


@pytest.mark.slow
def test_prefill_chunks_and_decoding_in_one_step() -> None:
    """With long contexts, each kind has its own kernel, and rows of chunks are marked."""
    problem = make([(1, 1200), (40, 80), (16, 50), (17, 17)], kv_heads=1)
    library = problem.check()
    kernels = [name.split("-")[0] for name, _ in library.launches]
    assert kernels == ["attend_split", "attend_chunk"]
    _, partials, _ = problem.attend()
    assert partials.log_sums is not None
    whole = torch.tensor([False, *[True] * 40, *[False] * 16, *[True] * 17])
    assert torch.equal(partials.log_sums[0, :, 0] == torch.inf, whole)


def test_prefill_chunks_and_decoding_without_splits() -> None:
    problem = make([(1, 1200), (40, 80)], kv_heads=1)
    library = problem.check(num_sms=1)
    assert [grid[2] for _, grid in library.launches] == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("pages", ["f16", "q4_0"])
def test_splits_do_not_change_the_output(pages: str) -> None:
    problem = make([(1, 700), (3, 64), (2, 129)], kv_heads=1, pages=pages)
    one, partials, _ = problem.attend(num_sms=1)
    assert partials.splits == 0
    for num_sms, splits in ((3, 2), (7, 4), (100, 11)):
        some, partials, _ = problem.attend(num_sms=num_sms)
        assert partials.splits == splits
        torch.testing.assert_close(some, one, rtol=1e-3, atol=1e-3)


def test_log_sums_are_natural_logarithms() -> None:
    problem = make([(1, 256)], kv_heads=1, group=1)
    _, partials, _ = problem.attend()
    assert partials.log_sums is not None
    assert isinstance(problem.key_pages, torch.Tensor)
    keys = problem.key_pages[problem.step.block_tables[0, :8].long()].flatten(0, 1)[:, 0].float()
    scores = keys @ problem.query[0, 0].float() * problem.scale
    expected = scores.view(partials.splits, -1).logsumexp(1)
    torch.testing.assert_close(partials.log_sums.flatten(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_grid_for_longer_contexts_is_correct_for_shorter_ones() -> None:
    """As in a CUDA graph: splits without keys are marked as empty and write nothing."""
    problem = make([(1, 40), (2, 70)])
    longer = replace(problem.step, longest_query=3, longest_context=4000)
    wide = replace(problem, step=longer)
    found, partials, _ = wide.attend(num_sms=64)
    torch.testing.assert_close(found, problem.expected(), rtol=1e-3, atol=1e-3)
    assert partials.splits > 3
    assert partials.log_sums is not None
    assert (partials.log_sums[3:] == -torch.inf).all()


def test_padding_sequences() -> None:
    """They may have a query, but no keys."""
    problem = make([(1, 40), (1, 1)])
    problem.step.context_lengths[1] = 0
    for num_sms in (1, 64):
        found, _, _ = problem.attend(num_sms=num_sms)
        torch.testing.assert_close(found[:1], problem.expected()[:1], rtol=1e-3, atol=1e-3)
        assert not found[1].any()


def test_splits_fit_into_the_workspace() -> None:
    problem = make([(4, 700)], kv_heads=1)
    row_bytes = 4 * 2 * (64 + 1) * 4
    found, partials, _ = problem.attend(num_sms=64, workspace_bytes=3 * row_bytes + 17)
    assert partials.splits == 3
    torch.testing.assert_close(found, problem.expected(), rtol=1e-3, atol=1e-3)


def test_large_scores_do_not_overflow() -> None:
    problem = make([(2, 140)])
    found, _, _ = replace(problem, query=problem.query * 100).attend()
    assert found.isfinite().all()


def test_page_offsets_beyond_2_to_the_31() -> None:
    """Element offsets exceed 32 bits; only the pages in use exist in memory."""
    problem = make([(1, 40), (20, 20)], pages="q8_0", head_size=128)
    assert isinstance(problem.key_pages, QuantizedKVPages)
    assert isinstance(problem.value_pages, QuantizedKVPages)
    _, page, kv_heads, head_size = problem.key_pages.shape
    far = (1 << 31) // (page * kv_heads * head_size) + 5
    tables = problem.step.block_tables
    tables[tables < 10**8] += far

    def moved(pages: QuantizedKVPages) -> QuantizedKVPages:
        count = len(pages.codes)
        codes = torch.empty((far + count, *pages.codes.shape[1:]), dtype=torch.int8)
        scales = torch.empty((far + count, *pages.scales.shape[1:]), dtype=torch.float16)
        codes[far:], scales[far:] = pages.codes, pages.scales
        return QuantizedKVPages(codes, scales)

    far_off = replace(
        problem, key_pages=moved(problem.key_pages), value_pages=moved(problem.value_pages)
    )
    far_off.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)

    def pick(*choices: int) -> int:
        return choices[int(torch.randint(len(choices), (1,), generator=random))]

    chunks: list[tuple[int, int]] = []
    for _ in range(pick(1, 2, 5, 9)):
        tokens = pick(0, 1, 1, 1, 2, 5, 9, 16, 17, 40, 130)
        chunks.append((tokens, tokens + pick(0, 1, 31, 32, 100, 500)))
    problem = make(
        [*chunks, (1, 33)],
        head_size=pick(64, 80, 96, 128, 256, 512),
        group=pick(1, 2, 5, 8, 16),
        kv_heads=pick(1, 2, 3),
        pages=("f16", "bf16", "q8_0", "q4_0")[seed % 4],
        query=("f16", "bf16")[pick(0, 1)],
        seed=seed,
    )
    problem.check(
        num_sms=pick(1, 16, 132), window=(None, 1, 40, 128)[pick(0, 1, 2, 3)],
        soft_cap=(None, 20.0)[pick(0, 1)],
    )  # fmt: skip
