"""csrc/rope_append.cuh on the CPU, bit for bit against its reference, and the reference itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.attention.rope_append import launch_rope_append, rope_append_reference
from ingle.kernels.elementwise.rms_norm import rms_norm_reference
from ingle.kernels.elementwise.rope import rope_reference, rotary_tables
from ingle.kernels.kv_cache.kv_append import (
    dequantize_heads_reference,
    hadamard_reference,
    kv_append_reference,
)
from ingle.kernels.kv_cache.kv_page_format import KVPageFormat
from ingle.kernels.kv_cache.kv_pages import KeyBias, KVPages, QuantizedKVPages

MakeLibrary = Callable[..., CPUKernelLibrary]
RopeAppend = Callable[..., torch.Tensor | None]

PAGE, PAGES = 32, 5
PADDING = (PAGES - 1) * PAGE
KINDS = ["f32", "f16", "bf16", "q8_0", "q4_0"]
FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclass
class Problem:
    """Heads as slices of one tensor's rows between unused elements, and pages for them."""

    rows: torch.Tensor
    x: AttentionInput
    key_pages: KVPages
    value_pages: KVPages
    slots: torch.Tensor

    def copy(self) -> Problem:
        rows = self.rows.clone()
        heads, (kv_heads, size) = self.x.query.shape[1], self.x.key.shape[1:]
        query, key, value = parts(rows, heads, kv_heads, size)
        x = replace(self.x, query=query, key=key, value=value)
        key_pages, value_pages = clone(self.key_pages), clone(self.value_pages)
        return Problem(rows, x, key_pages, value_pages, self.slots)

    def planes(self) -> list[torch.Tensor]:
        """Return everything except the padding slot, which several tokens write."""
        planes = [self.rows]
        for pages in (self.key_pages, self.value_pages):
            whole = [pages] if isinstance(pages, torch.Tensor) else [pages.codes, pages.scales]
            planes += [plane[:-1] for plane in whole] + [plane[-1, 1:] for plane in whole]
        return [plane.contiguous().view(torch.uint8) for plane in planes]

    def arguments(self) -> tuple[AttentionInput, KVPages, KVPages, torch.Tensor]:
        return self.x, self.key_pages, self.value_pages, self.slots


def clone(pages: KVPages) -> KVPages:
    if isinstance(pages, torch.Tensor):
        return pages.clone()
    return replace(pages, codes=pages.codes.clone(), scales=pages.scales.clone())


def parts(
    rows: torch.Tensor, heads: int, kv_heads: int, size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return queries, keys and values after eight unused elements."""
    behind = 8 + heads * size
    query, key, value = (
        rows[:, first : first + count * size].view(len(rows), count, size)
        for first, count in (
            (8, heads),
            (behind, kv_heads),
            (behind + kv_heads * size, kv_heads),
        )
    )
    return query, key, value


def make_pages(kind: str, kv_heads: int, size: int, bias: KeyBias | None = None) -> KVPages:
    """Make pages full of NaN, or of codes that no test writes everywhere."""
    shape = PAGES, PAGE, kv_heads
    if kind in FLOATS:
        return torch.full((*shape, size), torch.nan, dtype=FLOATS[kind])
    form = KVPageFormat(8 if kind == "q8_0" else 4, size)
    dtype = torch.int8 if form.bits == 8 else torch.uint8
    codes = torch.full((*shape, form.code_bytes), 0x5A, dtype=dtype)
    scales = torch.full((*shape, form.blocks), torch.nan, dtype=torch.float16)
    return QuantizedKVPages(codes, scales, bias)


def make(
    kind: str,
    size: int = 64,
    *,
    heads: int = 4,
    kv_heads: int = 2,
    pairs: int | None = None,
    dtype: torch.dtype = torch.float32,
    norm: bool = False,
    bias: bool = False,
    tokens: int = 5,
    seed: int = 0,
) -> Problem:
    """Make tokens with scattered slots, two of them padding; heads have a few large elements."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random)

    rows = torch.full((tokens, 16 + (heads + 2 * kv_heads) * size), torch.nan)
    rows[:, 8:-8] = normal(tokens, rows.shape[1] - 16)
    rows[:, 8 + 3 :: size] *= 20
    rows = rows.to(dtype)
    query, key, value = parts(rows, heads, kv_heads, size)
    positions = torch.randint(0, 300, (tokens,), generator=random)
    pairs = size // 2 if pairs is None else pairs
    frequencies = 1000.0 ** (-torch.arange(pairs) / max(pairs, 1))
    cosine, sine = rotary_tables(positions, frequencies, 1.1)
    norms = (1 + 0.2 * normal(size), 1 + 0.2 * normal(size)) if norm else (None, None)
    x = AttentionInput(query, key, value, *norms, 1e-6)
    if pairs:
        x = replace(x, cosine=cosine, sine=sine)
    every = rotary_tables(torch.arange(300), frequencies, 1.1)
    key_bias = KeyBias(30 * normal(kv_heads, size), *every) if bias else None
    if key_bias is not None:
        x = replace(x, key_bias=key_bias.bias)
    slots = torch.tensor([0, PAGE + 31, 2 * PAGE, 5, 3 * PAGE - 1, *range(40, 40 + tokens)])
    slots = slots[:tokens].clone()
    if tokens > 3:
        slots[-2:] = PADDING
    pages = make_pages(kind, kv_heads, size, key_bias), make_pages(kind, kv_heads, size)
    return Problem(rows, x, *pages, slots)


@pytest.fixture
def rope_append(make_library: MakeLibrary) -> RopeAppend:
    return partial(launch_rope_append, make_library(seed=3))


def check(rope_append: RopeAppend, problem: Problem) -> None:
    expected = problem.copy()
    wanted = rope_append_reference(*expected.arguments())
    found = rope_append(*problem.arguments())
    for ours, theirs in zip(problem.planes(), expected.planes(), strict=True):
        assert torch.equal(ours, theirs)
    if wanted is None:
        assert found is None
    else:
        assert found is not None
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("kind", ["bf16", "q4_0"])
def test_pages_of_an_earlier_layer_are_left_alone(rope_append: RopeAppend, kind: str) -> None:
    """Without heads of keys and values; only queries are normalised and rotated."""
    problem = make(kind, 512, norm=True)
    before = problem.copy()
    nothing = problem.x.key[:, :0]
    problem.x = replace(problem.x, key=nothing, value=nothing, key_norm=None)
    expected = problem.copy()
    rope_append_reference(*expected.arguments())
    rope_append(*problem.arguments())
    for ours, theirs in zip(problem.planes(), expected.planes(), strict=True):
        assert torch.equal(ours, theirs)
    for ours, old in zip(problem.planes()[1:], before.planes()[1:], strict=True):
        assert torch.equal(ours, old)
    assert not torch.equal(problem.planes()[0], before.planes()[0])


@pytest.mark.parametrize("kind", ["f32", "bf16", "q8_0"])
@pytest.mark.parametrize("size", [320, 576, 640])
def test_keys_without_values_are_bit_exact(rope_append: RopeAppend, kind: str, size: int) -> None:
    """Latent attention: one key of all heads, whose end is its value."""
    problem = make(kind, size, heads=5, kv_heads=1, pairs=32, dtype=torch.bfloat16)
    before = problem.copy()
    problem.x = replace(problem.x, value=problem.x.value[:, :0])
    expected = problem.copy()
    expected.x = replace(expected.x, value=problem.x.value)
    rope_append_reference(*expected.arguments())
    rope_append(*problem.arguments())
    for ours, theirs in zip(problem.planes(), expected.planes(), strict=True):
        assert torch.equal(ours, theirs)
    values = len(problem.planes()) // 2 + 1
    for ours, old in zip(problem.planes()[values:], before.planes()[values:], strict=True):
        assert torch.equal(ours, old)
    with pytest.raises(ValueError, match="heads of 584"):
        rope_append(*make(kind, 584, norm=True).arguments())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [8, 64, 72, 80, 96, 128, 136, 240, 256, 264, 512])
def test_head_sizes_are_bit_exact(rope_append: RopeAppend, kind: str, size: int) -> None:
    check(rope_append, make(kind, size, norm=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dtypes_are_bit_exact(rope_append: RopeAppend, kind: str, dtype: torch.dtype) -> None:
    check(rope_append, make(kind, 96, dtype=dtype, norm=True))
    check(rope_append, make(kind, 96, dtype=dtype, bias=True, pairs=16))


@pytest.mark.parametrize("kind", ["bf16", "q8_0", "q4_0"])
@pytest.mark.parametrize("pairs", [0, 1, 10, 16, 31, 40])
def test_partial_rotations_are_bit_exact(rope_append: RopeAppend, kind: str, pairs: int) -> None:
    check(rope_append, make(kind, 80, pairs=pairs, bias=True))


@pytest.mark.parametrize("heads", [(1, 1), (7, 1), (6, 6), (15, 3), (32, 2)])
def test_head_groups_are_bit_exact(rope_append: RopeAppend, heads: tuple[int, int]) -> None:
    for kind in ("f16", "q8_0"):
        check(rope_append, make(kind, 64, heads=heads[0], kv_heads=heads[1], bias=True))


@pytest.mark.parametrize("tokens", [1, 2, 67])
def test_token_counts_are_bit_exact(rope_append: RopeAppend, tokens: int) -> None:
    check(rope_append, make("q4_0", 64, tokens=tokens, heads=2, kv_heads=1))


def test_query_key_and_value_may_have_different_dtypes(rope_append: RopeAppend) -> None:
    problem = make("q8_0", bias=True)
    key = problem.x.key
    rows = problem.rows.bfloat16()
    query, _, value = parts(rows, 4, 2, 64)
    x = replace(problem.x, query=query, key=key, value=value)
    other = replace(problem.copy(), rows=rows, x=x)
    rope_append(*other.arguments())
    rope_append_reference(*problem.arguments())
    for plane, (ours, theirs) in enumerate(zip(other.planes(), problem.planes(), strict=True)):
        if 1 <= plane <= 4:  # codes and scales of keys
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.0, 1e-30, 3e-8, 1e6])
def test_heads_at_the_limits_of_the_scale_range(
    rope_append: RopeAppend, kind: str, value: float
) -> None:
    """Zeros, and scales below and above the range of half precision."""
    problem = make(kind, 64)
    problem.rows[:, 8:-8] = value * problem.rows[:, 8:-8].sign()
    check(rope_append, problem)


def test_nan_stays_nan(rope_append: RopeAppend) -> None:
    problem = make("q8_0", pairs=0, tokens=1)
    problem.x.key[0, 1, 40] = torch.nan
    rope_append(*problem.arguments())
    assert isinstance(problem.key_pages, QuantizedKVPages)
    scales = problem.key_pages.scales[0, 0]
    assert torch.equal(scales.isnan(), torch.tensor([[False, False], [False, True]]))


@pytest.mark.parametrize("kind", KINDS)
def test_reference_equals_norm_then_rotation_then_append(kind: str) -> None:
    """As separate float32 layers; norms sum in another order."""
    problem = make(kind, 80, pairs=16, bias=kind[0] != "q")
    separate = problem.copy()
    x = replace(separate.x, key=separate.x.key.clone())
    if x.key_bias is not None:
        x.key.add_(x.key_bias)
    assert x.cosine is not None
    assert x.sine is not None
    rope_append_reference(*problem.arguments())
    rope_reference(x.query, x.key, x.cosine, x.sine)
    kv_append_reference(x.key, x.value, *separate.arguments()[1:])
    if kind[0] == "q":
        x.query.copy_(hadamard_reference(x.query))
    for ours, theirs in zip(problem.planes(), separate.planes(), strict=True):
        assert torch.equal(ours, theirs)
    normed = make("f32", 80, pairs=0, norm=True)
    weight = normed.x.key_norm
    assert weight is not None
    expected = rms_norm_reference(normed.x.key, weight, 1e-6, torch.float32)
    rope_append_reference(*normed.arguments())
    assert isinstance(normed.key_pages, torch.Tensor)
    stored = normed.key_pages.flatten(0, 1)[normed.slots[:3]]
    assert torch.allclose(stored, expected[:3], rtol=1e-6, atol=0)


@pytest.mark.parametrize("pairs", [0, 10, 40])
def test_bias_query_gives_the_biass_contribution_to_scores(
    rope_append: RopeAppend, pairs: int
) -> None:
    problem = make("q8_0", 80, pairs=pairs, bias=True, heads=6, tokens=3)
    assert isinstance(problem.key_pages, QuantizedKVPages)
    bias = problem.key_pages.bias
    assert bias is not None
    bias_query = rope_append(*problem.arguments())
    assert bias_query is not None
    assert bias_query.shape == (3, 6, 2 * pairs)
    query = hadamard_reference(problem.x.query).double()  # undo the rotation
    every = torch.arange(300)
    keys = bias.at(every).double().repeat_interleave(3, 1)
    scores = torch.einsum("thd,nhd->thn", query, keys)
    unmoved = torch.einsum("thd,nhd->thn", query[..., 2 * pairs :], keys[..., 2 * pairs :])
    assert torch.allclose(unmoved, unmoved[..., :1].expand_as(unmoved))
    tables = torch.cat((bias.cosine, bias.sine), 1).double()
    found = bias_query.double() @ tables.T + unmoved
    scale = float(scores.abs().max())
    # 32 elements of 1 ulp each, and one more rounding of the query after its second rotation.
    assert float((found - scores).abs().max()) < 1e-6 * scale


def test_stored_keys_plus_bias_equal_the_keys(rope_append: RopeAppend) -> None:
    """A bias of 30 and more costs stored keys of 16 bits, or codes, no precision."""
    problem = make("q8_0", 64, bias=True, tokens=3, dtype=torch.bfloat16)
    x, pages = problem.x, problem.key_pages
    assert x.cosine is not None
    assert x.sine is not None
    assert isinstance(pages, QuantizedKVPages)
    key = x.key.float()
    rope_reference(key[:, :0], key, x.cosine, x.sine)
    rope_append(*problem.arguments())
    codes, scales = (p.flatten(0, 1)[problem.slots] for p in (pages.codes, pages.scales))
    stored = hadamard_reference(dequantize_heads_reference(codes, scales, pages.format))
    assert float((stored - key).abs().max()) < float(key.abs().max()) / 100


def test_slot_and_row_offsets_beyond_2_to_the_31(rope_append: RopeAppend) -> None:
    """Memory is reserved, but only a few pages are touched."""
    size = 128
    slots = (1 << 31) // size + 5 * PAGE
    try:
        wide = torch.empty(2 * (1 << 30) + 2 * size, dtype=torch.bfloat16)
        pages = [
            QuantizedKVPages(
                torch.empty(slots // PAGE, PAGE, 1, size, dtype=torch.int8),
                torch.empty(slots // PAGE, PAGE, 1, 4, dtype=torch.float16),
            )
            for _ in range(2)
        ]
    except RuntimeError as error:
        pytest.skip(f"so much memory cannot be reserved: {error}")
    small = make("q8_0", size, heads=2, kv_heads=1, tokens=3, dtype=torch.bfloat16)
    far = small.copy()
    query = wide.as_strided((3, 2, size), (1 << 30, size, 1))
    query.copy_(small.x.query)
    where = torch.tensor([0, slots - 1, slots - PAGE])
    x = replace(far.x, query=query)
    rope_append(x, pages[0], pages[1], where)
    rope_append_reference(*small.arguments())
    assert torch.equal(query, small.x.query)
    for ours, theirs in zip(pages, (small.key_pages, small.value_pages), strict=True):
        assert isinstance(theirs, QuantizedKVPages)
        for far_plane, plane in ((ours.codes, theirs.codes), (ours.scales, theirs.scales)):
            found = far_plane.view(slots, -1)[where]
            assert torch.equal(found, plane.flatten(0, 1)[small.slots].view(3, -1))


def test_invalid_shapes_are_rejected(rope_append: RopeAppend) -> None:
    problem = make("q8_0", bias=True)
    x, keys, values, slots = problem.arguments()
    for wrong in (None, torch.zeros(1, 64)):
        with pytest.raises(ValueError, match=r"beside the keys|no bias of keys"):
            rope_append(replace(x, key_bias=wrong), keys, values, slots)
    with pytest.raises(ValueError, match="stored as the same type"):
        rope_append(x, keys, make_pages("q4_0", 2, 64), slots)
    with pytest.raises(ValueError, match=r"Pages \(5, 32, 1, 64\) do not fit 2 heads of 64"):
        rope_append(x, keys, make_pages("q8_0", 1, 64), slots)
    with pytest.raises(ValueError, match="are no slots"):
        rope_append(x, keys, values, slots.int())
    odd = torch.zeros(5, 1 + 4 * 64)[:, 1:].view(5, 4, 64)
    with pytest.raises(ValueError, match="at a multiple of their size"):
        rope_append(replace(x, query=odd), keys, values, slots)
    with pytest.raises(ValueError, match="do not fit"):
        rope_append(replace(x, query=x.query.transpose(0, 1)), keys, values, slots)
    with pytest.raises(ValueError, match="no norm of 64"):
        rope_append(replace(x, key_norm=torch.ones(32)), keys, values, slots)
    with pytest.raises(ValueError, match=r"A table \(4, 32\) does not fit"):
        rope_append(replace(x, cosine=torch.ones(4, 32)), keys, values, slots)
    with pytest.raises(ValueError, match="do not fit 2 of keys"):
        rope_append(replace(x, query=x.query[:, :3]), keys, values, slots)
