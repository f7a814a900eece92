"""csrc/dense_gemv.cuh on the CPU against float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.matmul.dense_gemv import DENSE_VARIANTS, DenseGemv, DenseVariant

MakeLibrary = Callable[..., CPUKernelLibrary]
TYPES = [torch.float16, torch.bfloat16]


def operands(
    rows: int, inputs: int, columns: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return weights, vectors, and their exact products."""
    generator = torch.Generator().manual_seed(rows + columns)
    weight = (torch.randn(rows, inputs, generator=generator) * 0.02).to(dtype)
    x = torch.randn(columns, inputs, generator=generator).to(dtype)
    return weight, x, x.double() @ weight.double().T


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the relative error in the Euclidean norm; NaN if a value is missing."""
    return float(((found.double() - expected) ** 2).sum().sqrt() / (expected**2).sum().sqrt())


@pytest.mark.parametrize("variant", DENSE_VARIANTS)
@pytest.mark.parametrize(
    ("rows", "inputs", "columns"),
    [(1, 8, 1), (37, 904, 3), (16, 1024, 8), (70, 2072, 9), (65, 56, 16), (9, 4096, 5)],
)
@pytest.mark.parametrize("dtype", TYPES)
def test_products_of_any_shape(
    make_library: MakeLibrary, dtype: torch.dtype, rows: int, inputs: int, columns: int,
    variant: DenseVariant,
) -> None:  # fmt: skip
    weight, x, expected = operands(rows, inputs, columns, dtype)
    gemv = DenseGemv(make_library(seed=rows + variant.split))
    out = torch.full((columns, rows), float("nan"))
    gemv.multiply(weight, x, out, variant=variant)
    # Weights and vectors are exact: only sums are rounded.
    assert error(out, expected) < 5e-6


@pytest.mark.parametrize("dtype", [torch.float32, *TYPES])
def test_outputs_of_any_dtype_in_wider_rows(make_library: MakeLibrary, dtype: torch.dtype) -> None:
    weight, x, expected = operands(21, 256, 11, torch.bfloat16)
    wide, bias = torch.full((11, 30), -7.0, dtype=dtype), torch.randn(21)
    DenseGemv(make_library(seed=3)).multiply(weight, x, wide[:, 4:25], bias=bias)
    rounding = {torch.float32: 5e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    assert error(wide[:, 4:25], expected + bias) < rounding
    assert bool((wide[:, :4] == -7).all())
    assert bool((wide[:, 25:] == -7).all())


@pytest.mark.parametrize("variant", DENSE_VARIANTS)
def test_products_are_added_to_a_residual(make_library: MakeLibrary, variant: DenseVariant) -> None:
    weight, x, expected = operands(37, 264, 3, torch.float16)
    gemv, residual, bias = DenseGemv(make_library(seed=5)), torch.randn(3, 37), torch.randn(37)
    wanted = residual.double() + 0.3 * (expected + bias)
    gemv.multiply(weight, x, residual, bias=bias, add=0.3, variant=variant)
    assert error(residual, wanted) < 5e-6


def test_nan_stays_in_its_column(make_library: MakeLibrary) -> None:
    """One column of NaN does not affect the others."""
    weight, x, _ = operands(24, 128, 6, torch.float16)
    x[0] = float("nan")
    out = DenseGemv(make_library()).multiply(weight, x, torch.empty(6, 24))
    assert bool(out[0].isnan().all())
    assert bool(out[1:].isfinite().all())


def test_fewer_rows_use_more_warps_each(make_library: MakeLibrary) -> None:
    gemv = DenseGemv(make_library(num_sms=132))
    variants = [gemv.variant(rows) for rows in (128256, 14336, 4096, 1024)]
    assert variants == [(16, 1), (16, 4), (8, 8), (8, 8)]


def test_unsupported_shapes_have_no_kernel(make_library: MakeLibrary) -> None:
    gemv, out = DenseGemv(make_library()), torch.empty(2, 4)
    weight, x, _ = operands(4, 64, 2, torch.float16)
    with pytest.raises(ValueError, match=r"torch.float16 by vectors of torch.bfloat16"):
        gemv.multiply(weight, x.bfloat16(), out)
    with pytest.raises(ValueError, match=r"torch.float32 by vectors"):
        gemv.multiply(weight.float(), x.float(), out)
    with pytest.raises(ValueError, match=r"\(17, 64\) vectors do not fit \(4, 64\) weights"):
        gemv.multiply(weight, x[:1].expand(17, 64).contiguous(), torch.empty(17, 4))
    with pytest.raises(ValueError, match="Rows of 60 values"):
        gemv.multiply(weight[:, :60].contiguous(), x[:, :60].contiguous(), out)
    with pytest.raises(ValueError, match="Rows of 32 values"):
        gemv.multiply(weight[:, :32], x[:, :32].contiguous(), out)
    with pytest.raises(ValueError, match="do not begin where 16 bytes do"):
        gemv.multiply(weight.flatten()[1:193].view(3, 64), x, torch.empty(2, 3))
