"""Attention over quantised pages against attention over exact keys and values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch

from ingle.kernels.attention.paged_attention_reference import paged_attention_reference
from ingle.kernels.elementwise.rope import rotary_tables
from ingle.kernels.kv_cache.kv_append import (
    dequantize_heads_reference,
    hadamard_reference,
    kv_append_reference,
    quantize_heads_reference,
)
from ingle.kernels.kv_cache.kv_page_format import KVPageFormat
from ingle.kernels.kv_cache.kv_pages import KeyBias, KVPages, QuantizedKVPages

PAGE, KV_HEADS, GROUP = 32, 2, 3
NMSE = {8: 1e-4, 4: 2e-2}
"""How large the error of the output may be beside the output, for normal keys and values: each
element of these is off by 3e-5 and 7e-3 of its square, and the errors of both add up."""


@dataclass
class Problem:
    """Sequences of given numbers of new and all tokens, with their keys and values."""

    chunks: list[tuple[int, int]]
    query: torch.Tensor
    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    window: int | None = None
    soft_cap: float | None = None

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.query.shape[2])

    def expected(self) -> torch.Tensor:
        """Compute attention in float64 over the exact keys and values."""
        outputs: list[torch.Tensor] = []
        begin = 0
        for (tokens, _), keys, values in zip(self.chunks, self.keys, self.values, strict=True):
            query = self.query[begin : begin + tokens].double()
            outputs.append(self._dense(query, keys.double(), values.double()))
            begin += tokens
        return torch.cat(outputs)

    def _dense(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        keys, values = (heads.repeat_interleave(GROUP, 1) for heads in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", query, keys) * self.scale
        if self.soft_cap is not None:
            scores = self.soft_cap * torch.tanh(scores / self.soft_cap)
        behind = torch.arange(len(keys) - len(query), len(keys))[:, None] - torch.arange(len(keys))
        window = self.window or len(keys)
        scores = scores.masked_fill((behind < 0) | (behind >= window), -torch.inf)
        return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)


def make(
    chunks: list[tuple[int, int]], head_size: int = 64, *, outliers: bool = False, seed: int = 0
) -> Problem:
    """Make normally distributed keys, or keys with a few large channels in all tokens."""
    random = torch.Generator().manual_seed(seed)

    def heads(tokens: int, count: int) -> torch.Tensor:
        return torch.randn(tokens, count, head_size, generator=random)

    keys = [heads(length, KV_HEADS) for _, length in chunks]
    values = [heads(length, KV_HEADS) for _, length in chunks]
    query = heads(sum(tokens for tokens, _ in chunks), GROUP * KV_HEADS)
    if outliers:
        for key, value in zip(keys, values, strict=True):
            key[:, :, 3] += 12
            key[:, :, head_size - 9] -= 15
            value[:, :, 5] *= 12
    return Problem(chunks, query, keys, values)


def make_pages(bits: int, num_pages: int, head_size: int, bias: KeyBias | None = None) -> KVPages:
    """Make pages full of values that must not be read."""
    if bits == 16:
        return torch.full((num_pages, PAGE, KV_HEADS, head_size), torch.nan)
    form = KVPageFormat(bits, head_size)
    dtype = torch.int8 if bits == 8 else torch.uint8
    codes = torch.full((num_pages, PAGE, KV_HEADS, form.code_bytes), 77, dtype=dtype)
    scales = torch.full((num_pages, PAGE, KV_HEADS, form.blocks), torch.nan, dtype=torch.float16)
    return QuantizedKVPages(codes, scales, bias)


def attend(
    problem: Problem, key_bits: int, value_bits: int | None = None, bias: KeyBias | None = None
) -> torch.Tensor:
    """Append to shuffled pages, then attend."""
    needed = [-(-length // PAGE) for _, length in problem.chunks]
    order = torch.randperm(sum(needed) + 3, generator=torch.Generator().manual_seed(1))
    size = problem.query.shape[2]
    key_pages = make_pages(key_bits, len(order), size, bias)
    value_pages = make_pages(value_bits or key_bits, len(order), size)
    tables = torch.full((len(needed), max(needed) + 1), int(order[-1]), dtype=torch.int32)
    given = 0
    for row, (keys, values) in enumerate(zip(problem.keys, problem.values, strict=True)):
        tables[row, : needed[row]] = order[given : given + needed[row]]
        given += needed[row]
        places = torch.arange(len(keys))
        slots = tables[row, places // PAGE].long() * PAGE + places % PAGE
        kv_append_reference(keys, values, key_pages, value_pages, slots, places)
    starts = torch.tensor([0, *(tokens for tokens, _ in problem.chunks)]).cumsum(0).int()
    lengths = torch.tensor([length for _, length in problem.chunks], dtype=torch.int32)
    return paged_attention_reference(
        problem.query,
        key_pages,
        value_pages,
        tables,
        lengths,
        starts,
        scale=problem.scale,
        window=problem.window,
        soft_cap=problem.soft_cap,
    )


def nmse(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.double() - expected).square().sum() / expected.square().sum())


def unrotated(problem: Problem, bits: int) -> torch.Tensor:
    """Compute with keys and values rounded to the same codes without rotation."""
    form = KVPageFormat(bits, problem.query.shape[2])
    keys, values = (
        [dequantize_heads_reference(*quantize_heads_reference(h, form), form) for h in heads]
        for heads in (problem.keys, problem.values)
    )
    return replace(problem, keys=keys, values=values).expected()


CHUNKS = [(1, 100), (7, 64), (40, 70), (1, 1), (33, 33), (1, 160)]


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("head_size", [64, 80, 96, 128, 256])
def test_error_is_that_of_the_quantisation(bits: int, head_size: int) -> None:
    problem = make(CHUNKS, head_size, seed=head_size)
    assert nmse(attend(problem, bits), problem.expected()) < NMSE[bits]


@pytest.mark.parametrize(("bits", "most"), [(8, 5e-4), (4, 0.1)])
@pytest.mark.parametrize("head_size", [64, 96, 128, 256])
def test_rotation_reduces_the_error_of_outliers(bits: int, most: float, head_size: int) -> None:
    problem = make(CHUNKS, head_size, outliers=True)
    expected = problem.expected()
    error = nmse(attend(problem, bits), expected)
    assert error < most
    assert error < 0.5 * nmse(unrotated(problem, bits), expected)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    "limits", [{"window": 20}, {"window": 33}, {"soft_cap": 0.7}, {"window": 40, "soft_cap": 2.0}]
)
def test_windows_and_soft_caps(bits: int, limits: dict[str, float]) -> None:
    problem = replace(make(CHUNKS, seed=3), **limits)
    assert nmse(attend(problem, bits), problem.expected()) < NMSE[bits]


@pytest.mark.parametrize(("keys", "values"), [(16, 8), (8, 16), (8, 4), (4, 8), (16, 4), (4, 16)])
def test_keys_and_values_may_be_of_different_types(keys: int, values: int) -> None:
    problem = make(CHUNKS, seed=4)
    limit = sum(NMSE.get(bits, 0) for bits in (keys, values))
    assert nmse(attend(problem, keys, values), problem.expected()) < limit


def make_bias(head_size: int, size: float, positions: int = 192) -> KeyBias:
    """Return a bias that is large in slowly and in quickly rotating pairs."""
    frequencies = 10000.0 ** (-torch.arange(0, head_size, 2) / head_size)
    tables = rotary_tables(torch.arange(positions), frequencies, 1.0)
    random = torch.Generator().manual_seed(9)
    return KeyBias(size * torch.randn(KV_HEADS, head_size, generator=random), *tables)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("limits", [{}, {"window": 40}, {"soft_cap": 30.0}])
def test_key_bias_does_not_increase_the_error(bits: int, limits: dict[str, float]) -> None:
    """Quantising keys with their bias would lose the outputs."""
    problem, bias = replace(make(CHUNKS, seed=5), **limits), make_bias(64, 30.0)
    problem.keys = [keys + bias.at(torch.arange(len(keys))) for keys in problem.keys]
    expected = problem.expected()
    error = nmse(attend(problem, bits, bias=bias), expected)
    assert error < NMSE[bits]
    assert error < 0.05 * nmse(attend(problem, bits), expected)


def test_key_bias_without_rotation_does_not_change_the_output() -> None:
    still = torch.zeros(192, 0)
    bias = KeyBias(torch.full((KV_HEADS, 64), 50.0), still, still)
    problem = make(CHUNKS, seed=6)
    expected = problem.expected()  # softmax is invariant to it
    problem.keys = [keys + 50 for keys in problem.keys]
    assert nmse(attend(problem, 8, bias=bias), expected) < NMSE[8]


@pytest.mark.parametrize("bits", [8, 4])
def test_output_does_not_depend_on_the_rest_of_the_batch(bits: int) -> None:
    """Bit for bit."""
    problem = make(CHUNKS, seed=7)
    together = attend(problem, bits)
    begin = 0
    for index, (tokens, _) in enumerate(CHUNKS):
        end = begin + tokens
        alone = Problem(
            CHUNKS[index : index + 1],
            problem.query[begin:end],
            problem.keys[index : index + 1],
            problem.values[index : index + 1],
        )
        assert torch.equal(attend(alone, bits), together[begin:end])
        begin = end


@pytest.mark.parametrize("bits", [8, 4])
def test_16_bit_activations(bits: int) -> None:
    problem = make(CHUNKS, seed=8)
    expected = problem.expected()
    problem.query = problem.query.bfloat16()
    problem.keys, problem.values = (
        [heads.bfloat16() for heads in each] for each in (problem.keys, problem.values)
    )
    got = attend(problem, bits)
    assert got.dtype is torch.bfloat16
    assert nmse(got, expected) < NMSE[bits] + 1e-4


@pytest.mark.parametrize("bits", [8, 4])
def test_tokens_are_written_only_to_their_slots(bits: int) -> None:
    pages = [make_pages(bits, 4, 64) for _ in range(2)]
    slots = torch.tensor([0, 31, 32, 3 * PAGE + 7, 2 * PAGE + 31])
    heads = make([(0, len(slots))])
    kv_append_reference(heads.keys[0], heads.values[0], pages[0], pages[1], slots)
    for new, stored in zip((heads.keys[0], heads.values[0]), pages, strict=True):
        assert isinstance(stored, QuantizedKVPages)
        assert stored.shape == (4, PAGE, KV_HEADS, 64)
        others = torch.ones(4 * PAGE, dtype=torch.bool)
        others[slots] = False
        assert stored.scales.flatten(0, 1)[others].isnan().all()
        assert (stored.codes.flatten(0, 1)[others] == 77).all()
        codes, scales = (plane.flatten(0, 1)[slots] for plane in (stored.codes, stored.scales))
        found = dequantize_heads_reference(codes, scales, stored.format)
        assert nmse(hadamard_reference(found), new.double()) < NMSE[bits] / 2
