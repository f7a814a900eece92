from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ingle.kernels.elementwise.activations import (
    TILE,
    dequantize_q8,
    q8_groups,
    quantize_q8_reference,
)
from ingle.kernels.matmul.quantized_gemv import QuantizedGemv

MakeGemv = Callable[..., QuantizedGemv]


def vectors(columns: int, inputs: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(columns, inputs, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("columns", "inputs"), [(1, 32), (3, 480), (8, 1024), (2, 2816), (17, 544)]
)
def test_quantised_tiles_equal_the_reference(
    make_gemv: MakeGemv,
    columns: int,
    inputs: int,
    dtype: torch.dtype,
    seed: int,
) -> None:
    x = vectors(columns, inputs).to(dtype)
    tiles = make_gemv(seed).quantize(x)
    expected = quantize_q8_reference(x)
    assert torch.equal(q8_groups(tiles, inputs), q8_groups(expected, inputs))
    error = (dequantize_q8(tiles, inputs) - x.double()).abs().view(columns, -1, 32)
    largest = x.double().abs().view(columns, -1, 32).amax(-1, keepdim=True)
    assert bool((error <= largest / 127 * 0.5001).all())


@pytest.mark.parametrize("size", [1e-45, 1e-38, 9e-31, 1.1e-30, 1e-20, 3e38])
def test_inputs_of_any_size(make_gemv: MakeGemv, size: float) -> None:
    x = vectors(2, 256).clamp(-1, 1) * size
    found = dequantize_q8(make_gemv().quantize(x), 256)
    assert bool(found.isfinite().all())
    assert float((found - x.double()).abs().max()) <= max(size / 127, 1e-30)


def test_zeros(make_gemv: MakeGemv) -> None:
    tiles = make_gemv().quantize(torch.zeros(1, 64))
    assert not bool(q8_groups(tiles, 64).any())


def test_sums_beyond_sixteen_bits(make_gemv: MakeGemv) -> None:
    tiles = make_gemv().quantize(torch.full((1, 64), 60000.0, dtype=torch.bfloat16))
    facts = tiles[0, 0, TILE : TILE + 16].view(torch.float32)
    assert float(facts[1]) == pytest.approx(float(facts[0]) * 127 * 32)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_stay_visible(make_gemv: MakeGemv, wrong: float) -> None:
    """A lost NaN would give a wrong answer that looks right."""
    x = vectors(1, 128)
    x[0, 70] = wrong
    finite = dequantize_q8(make_gemv().quantize(x), 128).isfinite().view(4, 32).all(1)
    assert torch.equal(finite, torch.tensor([True, True, False, True]))


def test_row_size_must_be_a_multiple_of_the_group(make_gemv: MakeGemv) -> None:
    with pytest.raises(ValueError, match="40 values cannot be quantised"):
        make_gemv().quantize(torch.zeros(1, 40))
    with pytest.raises(ValueError, match="40 inputs are not whole groups"):
        quantize_q8_reference(torch.zeros(1, 40))
