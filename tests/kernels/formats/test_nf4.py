from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.nf4 import (
    NF4_VALUES,
    dequantize_nf4,
    dequantize_nf4_blocks,
    dynamic_values,
    quantize_absmax,
    quantize_nf4,
    quantize_nf4_blocks,
)
from ingle.kernels.matmul.linear import linear_reference


@functools.cache
def bnb() -> Any:
    """Import bitsandbytes in the first test that needs it, because that takes seconds."""
    return importlib.import_module("bitsandbytes.functional")


def normal(*shape: int, scale: float = 0.02, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def midpoints(*shape: int) -> torch.Tensor:
    """Return values exactly between two codes, in blocks whose largest magnitude is 1."""
    values = torch.tensor(NF4_VALUES)
    between = (values[:-1] + values[1:]) / 2
    return (
        torch.cat((values, between, torch.nextafter(between, torch.tensor(9.0))))
        .repeat(99)[: shape[0] * shape[1]]
        .view(shape)
    )


MATRICES: dict[str, Callable[[], torch.Tensor]] = {
    "normal": lambda: normal(64, 512),
    "many blocks": lambda: normal(300, 4096),
    "one block": lambda: normal(1, 64),
    "one group and a block": lambda: normal(257, 64),
    "uneven scales": lambda: normal(128, 256) * torch.logspace(-6, 3, 128)[:, None],
    "zeros": lambda: torch.zeros(8, 128),
    "zeros in places": lambda: normal(64, 128) * (torch.arange(64)[:, None] % 2),
    "all equal": lambda: torch.full((16, 128), 0.37),
    "all equal, negative": lambda: torch.full((16, 128), -1.5),
    "huge": lambda: normal(16, 128, scale=1e35),
    "tiny": lambda: normal(16, 128, scale=1e-37),
    "subnormal": lambda: normal(16, 128, scale=1e-41),
    "on the boundaries": lambda: midpoints(16, 256),
    "integers": lambda: (torch.arange(64 * 128) % 31 - 15).float().view(64, 128),
}


def assert_same_bits(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours.reshape(-1).view(torch.uint8), theirs.reshape(-1).view(torch.uint8))


def reference(matrix: torch.Tensor, *, nested: bool = True) -> tuple[torch.Tensor, Any]:
    return bnb().quantize_4bit(matrix, quant_type="nf4", compress_statistics=nested)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MATRICES)
def test_codes_and_scales_equal_those_of_bitsandbytes(name: str, dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max / 1000  # the mean of scales must be finite
    matrix = MATRICES[name]().clamp(-largest, largest).to(dtype)
    ours, (codes, state) = quantize_nf4(matrix), reference(matrix)
    nested = state.state2
    assert ours.nested is not None
    assert_same_bits(ours.codes.flatten(), codes.flatten())
    assert_same_bits(ours.absmax.flatten(), state.absmax)
    assert_same_bits(ours.nested.absmax, nested.absmax)
    assert_same_bits(ours.nested.values, nested.code)
    assert_same_bits(ours.nested.offset, state.offset)
    assert (ours.block_size, ours.nested.group) == (state.blocksize, nested.blocksize)
    values = bnb().dequantize_4bit(codes, state)
    assert_same_bits(dequantize_nf4(ours, dtype), values)
    assert_same_bits(dequantize(ours, dtype), values)


@pytest.mark.parametrize("count", [1, 2, 7, 63, 64, 65, 100, 127, 128, 1000, 4097, 70001])
def test_tensors_of_any_size(count: int) -> None:
    values = normal(count)
    codes, absmax = quantize_nf4_blocks(values)
    expected, state = reference(values, nested=False)
    assert_same_bits(codes, expected.flatten())
    assert_same_bits(absmax, state.absmax)
    quantized, inner = quantize_absmax(absmax)
    found = reference(values)[1]
    assert_same_bits(quantized, found.absmax)
    assert_same_bits(inner.absmax, found.state2.absmax)
    assert_same_bits(inner.offset, found.offset)
    scales = inner.scales(quantized)
    exact = (
        torch.tensor(NF4_VALUES)[
            torch.stack((codes >> 4, codes & 15), dim=1).flatten()[:count].int()
        ]
        * scales.repeat_interleave(64)[:count]
    )
    assert_same_bits(dequantize_nf4_blocks(codes, scales, count), exact)


@settings(deadline=None)
@given(
    rows=st.integers(1, 40),
    blocks=st.integers(1, 20),
    exponents=st.tuples(st.floats(-30, 30), st.floats(-3, 3)),
    seed=st.integers(0, 1 << 32),
)
def test_arbitrary_matrices_equal_bitsandbytes(
    rows: int, blocks: int, exponents: tuple[float, float], seed: int
) -> None:
    spread = torch.linspace(0, exponents[1], rows)[:, None]
    matrix = normal(rows, 64 * blocks, scale=10 ** exponents[0], seed=seed) * 10**spread
    ours, (codes, state) = quantize_nf4(matrix), reference(matrix)
    assert_same_bits(ours.codes.flatten(), codes.flatten())
    assert_same_bits(ours.absmax.flatten(), state.absmax)
    assert_same_bits(dequantize_nf4(ours), bnb().dequantize_4bit(codes, state))


def test_trailing_zeros() -> None:
    values = torch.cat((normal(64), torch.zeros(5)))
    codes, absmax = quantize_nf4_blocks(values)
    expected, state = reference(values, nested=False)
    assert_same_bits(codes, expected.flatten())
    assert_same_bits(absmax, state.absmax)


@pytest.mark.parametrize("block_size", [32, 128, 4096])
def test_other_block_sizes(block_size: int) -> None:
    matrix = normal(8, 4096)
    codes, state = bnb().quantize_4bit(matrix, blocksize=block_size, quant_type="nf4")
    ours = quantize_nf4(matrix, block_size=block_size, double_quantization=False)
    assert ours.nested is None
    assert_same_bits(ours.codes.flatten(), codes.flatten())
    assert_same_bits(ours.absmax.flatten(), state.absmax)
    if block_size < 2048:
        assert_same_bits(dequantize_nf4(ours), bnb().dequantize_4bit(codes, state))


def test_many_random_scales() -> None:
    """Quantised scales depend on several roundings; a million of them cover all."""
    absmax = torch.rand(1 << 20, generator=torch.Generator().manual_seed(3)) ** 4
    ours, nested = quantize_absmax(absmax)
    theirs, state = bnb().quantize_blockwise(absmax - absmax.mean(), blocksize=256)
    assert_same_bits(ours, theirs)
    assert_same_bits(nested.absmax, state.absmax)


def test_dynamic_map_equals_that_of_bitsandbytes() -> None:
    assert_same_bits(dynamic_values(), bnb().create_dynamic_map())


def test_selected_rows_equal_those_of_the_whole_matrix() -> None:
    weight = quantize_nf4(normal(700, 192))
    whole = dequantize_nf4(weight)
    assert torch.equal(dequantize_nf4(weight.rows(slice(100, 613))), whole[100:613])
    index = torch.tensor([699, 0, 5, 5])
    assert torch.equal(dequantize_nf4(weight.rows(index)), whole[index])


def test_nf4_product_equals_that_of_dequantized_weights() -> None:
    weight = quantize_nf4(normal(2000, 512))
    x, bias = torch.randn(3, 512), torch.randn(2000)
    expected = x.double() @ dequantize_nf4(weight).double().T + bias
    found = linear_reference(x, weight, bias)
    assert torch.allclose(found.double(), expected, rtol=0, atol=1e-6 * float(expected.abs().max()))


def test_size_in_memory() -> None:
    weight = quantize_nf4(normal(1024, 1024))
    assert weight.shape == (1024, 1024)
    assert 4 < weight.nbytes * 8 / (1 << 20) < 4.2


def test_rows_must_be_whole_blocks() -> None:
    with pytest.raises(ValueError, match="96 columns are not whole blocks of 64"):
        quantize_nf4(torch.zeros(2, 96))
