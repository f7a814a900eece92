"""Activations in FP8, against torch's own rounding, and the products that read them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import FP8Inputs
from ingle.kernels.formats.fp8 import dequantize_fp8, quantize_fp8_reference, round_inputs
from ingle.kernels.formats.weight import FP8Tensor
from ingle.kernels.matmul.fp8_products import FP8Products, has_fp8

MakeLibrary = Callable[..., CPUKernelLibrary]
CPU = torch.device("cpu")
FIXED = torch.tensor(0.25)


@pytest.fixture(scope="module")
def products(make_library: MakeLibrary) -> FP8Products:
    return FP8Products(make_library(seed=1), torch.bfloat16, CPU)


def rows_of(tokens: int, inputs: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return values over the whole range of FP8, its subnormal numbers included."""
    random = torch.Generator().manual_seed(tokens)
    exponents = torch.randint(-14, 8, (tokens, inputs), generator=random)
    return (torch.randn(tokens, inputs, generator=random) * torch.exp2(exponents)).to(dtype)


def weights_of(rows: int, columns: int, scaling: str, *, fixed: bool = False) -> FP8Tensor:
    random = torch.Generator().manual_seed(rows)
    shape = {"tensor": (), "row": (rows, 1), "block": (-(-rows // 128), columns // 128)}[scaling]
    codes = torch.randn(rows, columns, generator=random).to(torch.float8_e4m3fn)
    scales = torch.rand(shape, generator=random) + 0.1
    return FP8Tensor(codes, scales, FIXED if fixed else None)


def assert_same(found: FP8Inputs, expected: tuple[torch.Tensor, torch.Tensor]) -> None:
    assert torch.equal(found.scales.nan_to_num(-1), expected[1].nan_to_num(-1))
    codes = found.codes.view(torch.uint8), expected[0].view(torch.uint8)
    nan = found.codes.float().isnan(), expected[0].float().isnan()
    assert torch.equal(*nan)
    assert torch.equal(codes[0][~nan[0]], codes[1][~nan[0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("scaling", "group"), [("row", 0), ("block", 128)])
def test_bytes_and_scales_equal_those_of_torch(
    products: FP8Products, dtype: torch.dtype, scaling: str, group: int
) -> None:
    for tokens, inputs in ((1, 128), (3, 1664), (2, 4352)):
        x = rows_of(tokens, inputs, dtype)
        found = products.quantize(x, weights_of(16, inputs, scaling))
        assert_same(found, quantize_fp8_reference(x, group=group))


def test_a_stored_scale_clips_what_is_beyond_it(products: FP8Products) -> None:
    x = rows_of(3, 1040)
    x[0, :2], x[1, 5] = torch.tensor([1e30, -torch.inf]), torch.nan
    found = products.quantize(x, weights_of(16, 1040, "tensor", fixed=True))
    assert torch.equal(found.codes[0, :2].float(), torch.tensor([448.0, -448.0]))
    assert_same(found, quantize_fp8_reference(x, FIXED))


def test_nan_infinity_and_zeros(products: FP8Products) -> None:
    """A lost NaN would give a wrong answer that looks right."""
    x = rows_of(4, 256)
    x[0, 3], x[1, 200], x[2] = torch.nan, torch.inf, 0
    for scaling, group in (("row", 256), ("block", 128)):
        found = products.quantize(x, weights_of(16, 256, scaling))
        assert_same(found, quantize_fp8_reference(x, group=group))
        assert not bool(found.codes[2].float().any())
        assert not bool(found.scales[0, 0].isfinite())


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("scaling", ["tensor", "row"])
def test_products_are_those_of_the_rounded_inputs(
    products: FP8Products, scaling: str, fixed: bool
) -> None:
    assert products.products == {"tensor", "row", "unscaled"}
    weight = products.prepare(weights_of(48, 512, scaling, fixed=fixed))
    bias = torch.randn(48, generator=torch.Generator().manual_seed(1))
    for tokens in (1, 5):
        x = torch.randn(tokens, 512, generator=torch.Generator().manual_seed(2))
        found = products.multiply(products.quantize(x, weight), weight, bias)
        exact = round_inputs(x.double(), weight) @ dequantize_fp8(weight, torch.float64).T
        torch.testing.assert_close(
            found.double(), exact + bias.double(), rtol=1e-2, atol=0.02 * float(exact.abs().max())
        )


def test_products_without_scales_serve_float16(make_library: MakeLibrary) -> None:
    """Torch scales rows to results in bfloat16 only, which would lose three bits."""
    products = FP8Products(make_library(), torch.float16, CPU)
    weight = products.prepare(weights_of(48, 512, "row"))
    assert products.product_for(weight) == "unscaled"
    x = torch.randn(3, 512, generator=torch.Generator().manual_seed(2))
    found = products.multiply(products.quantize(x, weight), weight)
    exact = round_inputs(x.double(), weight) @ dequantize_fp8(weight, torch.float64).T
    assert float((found - exact).abs().max()) <= float(exact.abs().max()) / 1024


def test_blocks_are_left_to_devices_that_multiply_them(products: FP8Products) -> None:
    assert products.product_for(weights_of(128, 512, "block")) is None


def test_gpus_before_the_rtx_40_have_no_fp8() -> None:
    names = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120")
    assert [has_fp8(name) for name in names] == [False, False, True, True, True, True]


def test_rows_of_weights() -> None:
    """Rows keep their scales; blocks are kept whole."""
    for scaling in ("tensor", "row", "block"):
        weight = weights_of(384, 256, scaling)
        expected = dequantize_fp8(weight)
        for index in (slice(128, 384), slice(0, 128), slice(256, None)):
            assert torch.equal(dequantize_fp8(weight.rows(index)), expected[index])
    order = torch.randperm(384)
    row = weights_of(384, 256, "row")
    assert torch.equal(dequantize_fp8(row.rows(order)), dequantize_fp8(row)[order])
    with pytest.raises(ValueError, match="Rows of blocks"):
        weights_of(384, 256, "block").rows(slice(64, 128))
