"""The reference of paged attention against dense attention in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from ingle.kernels.attention.paged_attention_reference import paged_attention_reference
from ingle.kernels.kv_cache.kv_append import kv_append_reference

PAGE, SIZE = 32, 16
SCALE = 1 / math.sqrt(SIZE)


@dataclass
class Problem:
    """Sequences with keys and values in shuffled pages; all other slots hold NaN."""

    query: torch.Tensor
    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    key_pages: torch.Tensor
    value_pages: torch.Tensor
    block_tables: torch.Tensor
    context_lengths: torch.Tensor
    query_starts: torch.Tensor

    def attend(self, *, window: int | None = None, soft_cap: float | None = None) -> torch.Tensor:
        return paged_attention_reference(
            self.query,
            self.key_pages,
            self.value_pages,
            self.block_tables,
            self.context_lengths,
            self.query_starts,
            scale=SCALE,
            window=window,
            soft_cap=soft_cap,
        )

    def expected(self, *, window: int | None = None, soft_cap: float | None = None) -> torch.Tensor:
        outputs = [self.query.new_zeros(0, *self.query.shape[1:], dtype=torch.float64)]
        starts = [int(start) for start in self.query_starts]
        for index, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            query = self.query[starts[index] : starts[index + 1]].double()
            outputs.append(dense(query, keys.double(), values.double(), window, soft_cap))
        return torch.cat(outputs)


def dense(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    window: int | None,
    soft_cap: float | None,
) -> torch.Tensor:
    group = query.shape[1] // keys.shape[1]
    keys, values = (t.repeat_interleave(group, 1) for t in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", query, keys) * SCALE
    if soft_cap is not None:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    tokens, length = scores.shape[1:]
    for row in range(tokens):
        position = length - tokens + row
        for column in range(length):
            if column > position or (window is not None and column <= position - window):
                scores[:, row, column] = -torch.inf
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), values)


def make(
    chunks: Sequence[tuple[int, int]],
    *,
    group: int = 2,
    kv_heads: int = 2,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Problem:
    """Make a problem; `chunks` are pairs of new tokens and all tokens."""
    generator = torch.Generator().manual_seed(seed)
    needed = [-(-length // PAGE) for _, length in chunks]
    spare = 3
    order = torch.randperm(sum(needed) + spare, generator=generator)
    shape = (len(order), PAGE, kv_heads, SIZE)
    key_pages = torch.full(shape, torch.nan, dtype=dtype)
    value_pages = torch.full(shape, torch.nan, dtype=dtype)
    # Unused entries of a block table name pages full of NaN.
    tables = torch.full(
        (len(chunks), max(needed, default=0) + 2), int(order[-1]), dtype=torch.int32
    )
    keys: list[torch.Tensor] = []
    values: list[torch.Tensor] = []
    given = 0
    for index, ((_, length), pages) in enumerate(zip(chunks, needed, strict=True)):
        tables[index, :pages] = order[given : given + pages]
        given += pages
        places = torch.arange(length)
        slots = tables[index, places // PAGE].long() * PAGE + places % PAGE
        key = torch.randn(length, kv_heads, SIZE, generator=generator)
        value = torch.randn(length, kv_heads, SIZE, generator=generator)
        kv_append_reference(key, value, key_pages, value_pages, slots)
        keys.append(key.to(dtype))
        values.append(value.to(dtype))
    starts = torch.tensor([0, *(tokens for tokens, _ in chunks)]).cumsum(0).int()
    query = torch.randn(int(starts[-1]), group * kv_heads, SIZE, generator=generator)
    lengths = torch.tensor([length for _, length in chunks], dtype=torch.int32)
    return Problem(query, keys, values, key_pages, value_pages, tables, lengths, starts)


LENGTHS = (1, 31, 32, 33, 64, 95, 96, 160)


def assert_close(problem: Problem, **options: float | None) -> None:
    got = problem.attend(**options)  # pyright: ignore[reportArgumentType]
    expected = problem.expected(**options)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(got.double(), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("tokens", [1, 2, 3, 5, 8, 15, 16])
def test_decoding_and_verification_steps(tokens: int) -> None:
    assert_close(make([(tokens, length) for length in LENGTHS if length >= tokens], seed=tokens))


@pytest.mark.parametrize("group", [1, 2, 3, 4, 7, 8])
def test_grouped_query_attention(group: int) -> None:
    assert_close(make([(1, 33), (4, 40), (33, 33)], group=group))


def test_prefill_and_decoding_in_one_batch() -> None:
    assert_close(make([(1, 70), (96, 96), (1, 1), (17, 81), (0, 0), (5, 37), (0, 64)]))


@pytest.mark.parametrize("window", [1, 2, 16, 32, 33, 64, 1000])
def test_sliding_window_includes_the_query_itself(window: int) -> None:
    assert_close(make([(1, 100), (7, 64), (70, 130), (1, 2)]), window=window)


@pytest.mark.parametrize(("length", "window"), [(100, 5), (64, 1), (70, 7), (66, 3), (97, 2)])
def test_first_key_of_a_window_may_be_the_last_of_its_page(length: int, window: int) -> None:
    assert (length - window) % PAGE == PAGE - 1
    assert_close(make([(1, length), (1, 200)]), window=window)


@pytest.mark.parametrize("window", [None, 20])
def test_soft_cap(window: int | None) -> None:
    assert_close(make([(1, 100), (7, 64), (40, 70)]), soft_cap=0.7, window=window)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_pages_are_read_exactly(dtype: torch.dtype) -> None:
    assert_close(make([(1, 100), (7, 64), (40, 70)], dtype=dtype))


def test_output_has_the_dtype_of_the_query() -> None:
    problem = make([(1, 40), (3, 33)])
    problem.query = problem.query.bfloat16()
    got = problem.attend()
    assert got.dtype is torch.bfloat16
    torch.testing.assert_close(got.double(), problem.expected(), rtol=1e-2, atol=1e-2)


def test_padding_queries_get_zeros() -> None:
    problem = make([(2, 40)])
    problem.query = torch.cat((problem.query, torch.full((3, 4, SIZE), torch.nan)))
    got = problem.attend()
    assert not got[2:].any()
    assert got[:2].isfinite().all()


@pytest.mark.parametrize("window", [None, 40])
def test_output_does_not_depend_on_the_rest_of_the_batch(window: int | None) -> None:
    """Bit for bit."""
    chunks = [(1, 70), (33, 64), (1, 1), (9, 81)]
    together = make(chunks)
    all_of_them = together.attend(window=window)
    for index in range(len(chunks)):
        begin, end = (int(start) for start in together.query_starts[index : index + 2])
        alone = Problem(
            together.query[begin:end],
            together.keys[index : index + 1],
            together.values[index : index + 1],
            together.key_pages,
            together.value_pages,
            together.block_tables[index : index + 1],
            together.context_lengths[index : index + 1],
            torch.tensor([0, end - begin], dtype=torch.int32),
        ).attend(window=window)
        assert torch.equal(alone, all_of_them[begin:end])


def test_large_scores_do_not_overflow() -> None:
    problem = make([(2, 40)])
    problem.query *= 1e4
    assert problem.attend().isfinite().all()
