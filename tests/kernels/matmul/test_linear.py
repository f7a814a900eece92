from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ingle.kernels.formats.dequantize import dequantize, row_chunks
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.formats.weight_format import GGML_FORMATS
from ingle.kernels.matmul.linear import linear_reference

MakeQuantized = Callable[..., QuantizedTensor]


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the relative error in the Euclidean norm."""
    return float(((found.double() - expected) ** 2).sum().sqrt() / (expected**2).sum().sqrt())


@pytest.mark.parametrize("kind", GGML_FORMATS)
def test_quantised_product_equals_that_of_dequantized_weights(
    make_quantized: MakeQuantized, kind: str
) -> None:
    weight = make_quantized(kind, 96, 512, tame=True)
    if kind in ("F32", "BF16"):  # random bytes would be floats of all magnitudes
        raw = torch.randn(96, 512).to(torch.float32 if kind == "F32" else torch.bfloat16)
        weight = QuantizedTensor(kind, raw.view(torch.uint8), 512)
    x, bias = torch.randn(5, 512), torch.randn(96)
    expected = x.double() @ dequantize(weight).double().T + bias
    assert error(linear_reference(x, weight, bias), expected) < 1e-6


def test_more_rows_than_one_dequantization_chunk(make_quantized: MakeQuantized) -> None:
    weight = make_quantized("Q4_K", 2500, 512, tame=True)
    assert len(list(row_chunks(*weight.shape, torch.device("cpu")))) > 1
    x, bias = torch.randn(2, 3, 512), torch.randn(2500)
    found = linear_reference(x, weight, bias)
    assert found.shape == (2, 3, 2500)
    assert error(found, x.double() @ dequantize(weight).double().T + bias) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
def test_plain_weights_take_the_input_dtype(dtype: torch.dtype, stored: torch.dtype) -> None:
    weight, x, bias = torch.randn(40, 64).to(stored), torch.randn(3, 64).to(dtype), torch.randn(40)
    found = linear_reference(x, weight, bias)
    assert found.dtype == dtype
    expected = x.double() @ weight.to(dtype).double().T + bias.to(dtype)
    assert error(found, expected) < (1e-6 if dtype == torch.float32 else 5e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_single_precision(dtype: torch.dtype) -> None:
    """A sum of ones in bfloat16 would stop at 256."""
    blocks = torch.ones(8, 256, 34, dtype=torch.uint8)
    blocks[:, :, :2] = torch.tensor([0x00, 0x3C])  # a scale of 1
    weight = QuantizedTensor("Q8_0", blocks.view(8, -1), 8192)
    assert torch.equal(
        linear_reference(torch.ones(1, 8192, dtype=dtype), weight), torch.full((1, 8), 8192.0)
    )


def test_no_tokens(make_quantized: MakeQuantized) -> None:
    assert linear_reference(torch.empty(0, 256), make_quantized("Q6_K", 4, 256)).shape == (0, 4)
