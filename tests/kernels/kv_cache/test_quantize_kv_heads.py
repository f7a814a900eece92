"""Quantised heads: codes, scales and quantisation errors."""

from __future__ import annotations

import pytest
import torch

from ingle.kernels.kv_cache.kv_append import dequantize_heads_reference, quantize_heads_reference
from ingle.kernels.kv_cache.kv_page_format import KVPageFormat

SIZES = [16, 24, 64, 80, 96, 128, 256]
FORMS = [KVPageFormat(bits, size) for bits in (8, 4) for size in SIZES]


def random_heads(form: KVPageFormat, tokens: int = 50) -> torch.Tensor:
    random = torch.Generator().manual_seed(form.bits + form.head_size)
    return torch.randn(tokens, 3, form.head_size, generator=random)


def round_trip(heads: torch.Tensor, form: KVPageFormat) -> torch.Tensor:
    return dequantize_heads_reference(*quantize_heads_reference(heads, form), form)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_plane_sizes_match_the_format(form: KVPageFormat) -> None:
    codes, scales = quantize_heads_reference(random_heads(form), form)
    assert codes.shape == (50, 3, form.code_bytes)
    assert scales.shape == (50, 3, form.blocks)
    assert (codes.element_size(), scales.dtype) == (1, torch.float16)
    assert codes.dtype is (torch.int8 if form.bits == 8 else torch.uint8)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_error_is_at_most_half_a_step(form: KVPageFormat) -> None:
    """Except beyond the last code of a range with one code less on one side."""
    heads = random_heads(form)
    _, scales = quantize_heads_reference(heads, form)
    steps = scales.float().abs().repeat_interleave(form.block_size, -1)
    off = (round_trip(heads, form) - heads).abs() / steps
    last = 127 if form.bits == 8 else 7
    inside = heads.abs() <= (last + 0.5) * steps
    assert float(off[inside].max()) < 0.5 + 1e-3
    assert float(off.max()) < (0.6 if form.bits == 8 else 1.01)


@pytest.mark.parametrize(("bits", "least", "most"), [(8, 1.5e-5, 3.5e-5), (4, 5e-3, 8.5e-3)])
@pytest.mark.parametrize("size", [64, 80, 96, 128, 256])
def test_error_of_normally_distributed_elements(
    bits: int, size: int, least: float, most: float
) -> None:
    form = KVPageFormat(bits, size)
    heads = random_heads(form, 2000)
    error = (round_trip(heads, form) - heads).square().mean() / heads.square().mean()
    assert least < float(error) < most


@pytest.mark.parametrize("size", SIZES)
def test_multiples_of_the_scale_are_exact(size: int) -> None:
    random = torch.Generator().manual_seed(size)
    form = KVPageFormat(8, size)
    codes = torch.randint(-127, 128, (9, form.blocks, form.block_size), generator=random)
    codes[..., 0] = 127
    heads = (codes * 0.03125).flatten(1)
    stored, scales = quantize_heads_reference(heads, form)
    assert torch.equal(stored, codes.flatten(1).to(torch.int8))
    assert torch.equal(dequantize_heads_reference(stored, scales, form), heads)


def test_four_bits_use_their_whole_range() -> None:
    """The largest element gets the code -8, whatever its sign."""
    for sign in (1, -1):
        heads = sign * torch.tensor([[-8.0, *range(-8, 7), *range(-8, 8)]])
        codes, scales = quantize_heads_reference(heads, KVPageFormat(4, 32))
        assert scales.item() == sign
        assert torch.equal(dequantize_heads_reference(codes, scales, KVPageFormat(4, 32)), heads)


def test_byte_holds_one_element_of_each_half_of_the_head() -> None:
    heads = torch.zeros(1, 64)
    heads[0, 5], heads[0, 37] = -8.0, -16.0
    heads[0, 6] = 3.0
    codes, scales = quantize_heads_reference(heads, KVPageFormat(4, 64))
    assert torch.equal(scales, torch.tensor([[1.0, 2.0]], dtype=torch.float16))
    assert codes[0, 5] == 0 | 0 << 4
    assert codes[0, 6] == 8 + 3 | 8 << 4
    assert codes[0, 7] == 8 | 8 << 4


@pytest.mark.parametrize("bits", [8, 4])
def test_zeros_and_values_out_of_range(bits: int) -> None:
    form = KVPageFormat(bits, 32)
    for size in (0.0, 1e-30, 1e-9):
        tiny = round_trip(torch.full((1, 32), size), form)
        assert float(tiny.abs().max()) <= 1e-7
    huge = round_trip(torch.full((1, 32), 3e7), form)
    assert huge.isfinite().all()
    assert float(huge.min()) > 4e5
    broken = torch.ones(2, 32)
    broken[0, 3] = torch.nan
    back = round_trip(broken, form)
    assert back[0].isnan().all(), "not a number that looks like one"
    torch.testing.assert_close(back[1], broken[1], rtol=1e-3, atol=0)
