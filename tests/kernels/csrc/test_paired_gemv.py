from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import quantize_q8_reference
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.matmul.quantized_gemv import (
    GemvVariant,
    QuantizedGemv,
    can_pair,
    quantized_gemv_reference,
)

MakeLibrary = Callable[..., CPUKernelLibrary]
MakeQuantized = Callable[..., QuantizedTensor]


def tiles_of(columns: int, inputs: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(columns)
    return quantize_q8_reference(torch.randn(columns, inputs, generator=generator))


def expected(first: QuantizedTensor, second: QuantizedTensor, tiles: torch.Tensor) -> torch.Tensor:
    return torch.cat([quantized_gemv_reference(each, tiles) for each in (first, second)], dim=1)


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(((found.double() - wanted) ** 2).sum().sqrt() / (wanted**2).sum().sqrt())


# Numbers of rows of both matrices that fill no block, and that do.
@pytest.mark.parametrize(
    ("rows", "second_rows", "inputs"), [(1, 1, 256), (37, 11, 1280), (64, 16, 4096)]
)
@pytest.mark.parametrize(("columns", "split"), [(1, 1), (1, 4), (3, 4), (8, 1), (8, 4)])
@pytest.mark.parametrize("biased", [False, True])
def test_both_products_in_one_launch(
    make_library: MakeLibrary, make_quantized: MakeQuantized, rows: int, second_rows: int,
    inputs: int, columns: int, split: int, biased: bool,
) -> None:  # fmt: skip
    first = make_quantized("Q4_K", rows, inputs, seed=1, tame=True)
    second = make_quantized("Q6_K", second_rows, inputs, seed=2, tame=True)
    assert can_pair(repack(first), repack(second))
    tiles, gemv = tiles_of(columns, inputs), QuantizedGemv(make_library(seed=columns + split))
    wide = torch.full((columns, rows + second_rows + 2), torch.nan)
    bias = torch.randn(rows + second_rows) * biased
    biases = (bias[:rows], bias[rows:]) if biased else (None, None)
    out, variant = wide[:, :-2], GemvVariant(2, split)
    gemv.multiply_pair(repack(first), repack(second), tiles, out, biases=biases, variant=variant)
    assert error(out, expected(first, second, tiles) + bias) < 1e-6
    assert bool(wide[:, -2:].isnan().all())


@pytest.mark.parametrize("columns", range(1, 9))
def test_every_number_of_columns(
    make_library: MakeLibrary, make_quantized: MakeQuantized, columns: int
) -> None:
    first = make_quantized("Q4_K", 13, 768, seed=1, tame=True)
    second = make_quantized("Q6_K", 6, 768, seed=2, tame=True)
    tiles, out = tiles_of(columns, 768), torch.full((columns, 19), torch.nan, dtype=torch.bfloat16)
    variant = GemvVariant(2, 1)
    QuantizedGemv(make_library()).multiply_pair(
        repack(first), repack(second), tiles, out, variant=variant
    )
    assert error(out, expected(first, second, tiles)) < 4e-3


def test_formats_without_a_common_kernel_are_rejected(
    make_library: MakeLibrary, make_quantized: MakeQuantized
) -> None:
    first = make_quantized("Q6_K", 13, 768, seed=1, tame=True)
    second = make_quantized("Q4_K", 6, 768, seed=2, tame=True)
    tiles, out = tiles_of(3, 768), torch.full((3, 19), torch.nan)
    assert not can_pair(repack(first), repack(second))
    with pytest.raises(ValueError, match="have no common kernel"):
        QuantizedGemv(make_library()).multiply_pair(repack(first), repack(second), tiles, out)


def test_invalid_shapes_are_rejected(
    make_library: MakeLibrary, make_quantized: MakeQuantized
) -> None:
    gemv = QuantizedGemv(make_library())
    first, second = (repack(make_quantized(kind, 8, 512, tame=True)) for kind in ("Q4_K", "Q6_K"))
    with pytest.raises(ValueError, match="do not fit 512 inputs"):
        gemv.multiply_pair(first, second, tiles_of(9, 512), torch.empty(9, 16))
    with pytest.raises(ValueError, match=r"8 and 8 rows do not fit \(2, 15\)"):
        gemv.multiply_pair(first, second, tiles_of(2, 512), torch.empty(2, 15))
    with pytest.raises(ValueError, match="is no bias of 8 rows"):
        gemv.multiply_pair(
            first, second, tiles_of(2, 512), torch.empty(2, 16), biases=(None, torch.zeros(7))
        )
