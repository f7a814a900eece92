from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import ActivationForms, q8_groups, quantize_q8_reference
from ingle.kernels.elementwise.rms_norm import NormQuantize, rms_norm_reference

MakeLibrary = Callable[..., CPUKernelLibrary]
BOTH = ActivationForms(torch.float32, tiles=True)
EPSILON = 1e-5


def rows_of(tokens: int, size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(tokens, size, generator=torch.Generator().manual_seed(seed)) * 3


def exact_norm(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Compute the norm in float64."""
    exact = rows.double()
    scale = torch.rsqrt(exact.square().mean(-1, keepdim=True) + EPSILON)
    return exact * scale * weight.double()


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Compare up to the rounding of a few float32 operations."""
    return torch.allclose(found.double(), expected, rtol=1e-6, atol=1e-6)


# Every variant, with sizes that fill no warp, no block and no tile.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [32, 480, 2048, 2080, 3584, 4096, 4128, 5376, 16384])
def test_rms_norm_of_any_size(make_library: MakeLibrary, size: int, dtype: torch.dtype) -> None:
    norm, rows = NormQuantize(make_library(seed=size)), rows_of(3, size).to(dtype)
    weight = torch.rand(size) + 0.5
    found = norm.rms_norm(rows, weight, EPSILON, BOTH)
    assert found.dense is not None
    assert found.tiles is not None
    assert close(found.dense, exact_norm(rows, weight))
    expected = quantize_q8_reference(found.dense)
    assert torch.equal(q8_groups(found.tiles, size), q8_groups(expected, size))
    assert close(found.dense, rms_norm_reference(rows, weight, EPSILON, torch.float32).double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dense_output_is_rounded_after_quantisation(
    make_library: MakeLibrary, dtype: torch.dtype
) -> None:
    norm, rows, weight = NormQuantize(make_library()), rows_of(2, 1056), torch.rand(1056)
    exact = norm.rms_norm(rows, weight, EPSILON, BOTH)
    rounded = norm.rms_norm(rows, weight, EPSILON, ActivationForms(dtype, tiles=True))
    assert exact.dense is not None
    assert rounded.dense is not None
    assert torch.equal(rounded.dense, exact.dense.to(dtype))
    assert exact.tiles is not None
    assert rounded.tiles is not None
    assert torch.equal(q8_groups(rounded.tiles, 1056), q8_groups(exact.tiles, 1056))


def test_only_requested_outputs_are_computed(make_library: MakeLibrary) -> None:
    norm, rows, weight = NormQuantize(make_library()), rows_of(2, 64), torch.ones(64)
    assert norm.rms_norm(rows, weight, EPSILON, ActivationForms(torch.float16)).tiles is None
    assert norm.rms_norm(rows, weight, EPSILON, ActivationForms(tiles=True)).dense is None


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [96, 2560, 5120])
def test_normalised_rows_are_added_to_the_residual(
    make_library: MakeLibrary, size: int, dtype: torch.dtype, seed: int
) -> None:
    norm, residual, weight = NormQuantize(make_library(seed)), rows_of(3, size), torch.rand(size)
    rows = rows_of(3, size, seed=1).to(dtype)
    expected = residual.double() + exact_norm(rows, weight)
    norm.rms_norm_add(residual, rows, weight, EPSILON)
    assert close(residual, expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [96, 2560, 5120])
def test_both_norms_in_one_launch(make_library: MakeLibrary, size: int, weighted: bool) -> None:
    norm, before = NormQuantize(make_library(seed=2)), rows_of(3, size)
    rows, weight = rows_of(3, size, seed=1).bfloat16(), torch.rand(size)
    rows_weight = torch.rand(size) if weighted else None
    residual, alone = before.clone(), before.clone()
    found = norm.add_rms_norm(residual, rows, rows_weight, weight, EPSILON, BOTH)
    if rows_weight is None:
        alone += rows
    else:
        norm.rms_norm_add(alone, rows, rows_weight, EPSILON)
    assert torch.equal(residual, alone)
    after = norm.rms_norm(alone, weight, EPSILON, BOTH)
    assert found.dense is not None
    assert after.dense is not None
    assert torch.equal(found.dense, after.dense)
    assert found.tiles is not None
    assert after.tiles is not None
    assert torch.equal(q8_groups(found.tiles, size), q8_groups(after.tiles, size))


def test_slices_of_wider_rows(make_library: MakeLibrary) -> None:
    """Neighbouring elements are neither read nor changed."""
    norm, weight = NormQuantize(make_library()), torch.rand(160)
    wide, rows = torch.full((3, 168), float("nan")), rows_of(3, 160)
    residual = torch.full((3, 164), float("nan"))
    wide[:, 4:164], residual[:, :160] = rows, rows
    found = norm.rms_norm(wide[:, 4:164], weight, EPSILON, BOTH)
    assert found.dense is not None
    assert close(found.dense, exact_norm(rows, weight))
    norm.rms_norm_add(residual[:, :160], wide[:, 4:164], weight, EPSILON)
    assert close(residual[:, :160], rows.double() + exact_norm(rows, weight))
    assert bool(residual[:, 160:].isnan().all())


def test_rows_of_zeros_and_nan(make_library: MakeLibrary) -> None:
    norm, rows = NormQuantize(make_library()), rows_of(3, 64)
    rows[0], rows[2, 5] = 0, float("nan")
    found = norm.rms_norm(rows, torch.ones(64), EPSILON, BOTH)
    assert found.dense is not None
    assert not bool(found.dense[0].any())
    assert bool(found.dense[1].isfinite().all())
    assert bool(found.dense[2].isnan().all())


def test_invalid_row_sizes_are_rejected(make_library: MakeLibrary) -> None:
    norm, weight = NormQuantize(make_library()), torch.ones(64)
    with pytest.raises(ValueError, match="Rows of 16416 elements cannot be normalised"):
        norm.rms_norm(torch.ones(1, 16416), torch.ones(16416), EPSILON, BOTH)
    with pytest.raises(ValueError, match="Rows of 36 elements cannot be normalised"):
        norm.rms_norm(torch.ones(1, 36), torch.ones(36), EPSILON, BOTH)
    with pytest.raises(ValueError, match=r"\(32,\) torch.float32 is no weight of 64"):
        norm.rms_norm(torch.ones(1, 64), torch.ones(32), EPSILON, BOTH)
    with pytest.raises(ValueError, match=r"rows of strides \(1, 2\) do not fit"):
        norm.rms_norm(torch.ones(64, 2).T, weight, EPSILON, BOTH)
    with pytest.raises(ValueError, match=r"rows of strides \(66, 1\) do not fit"):
        norm.rms_norm(torch.ones(2, 66)[:, :64], weight, EPSILON, BOTH)
    with pytest.raises(ValueError, match="A residual stream is float32"):
        norm.rms_norm_add(torch.ones(1, 64).half(), torch.ones(1, 64), weight, EPSILON)
