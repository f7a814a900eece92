from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.models.weights.converted_weights import DequantizedWeights
from ingle.models.weights.weights import Weight


class Stored:
    """Weights in a dictionary."""

    def __init__(self, **tensors: Weight) -> None:
        self._tensors = tensors

    @property
    def names(self) -> Iterable[str]:
        return self._tensors

    def get(self, name: str) -> Weight:
        return self._tensors[name]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantised_matrices_are_dequantised(dtype: torch.dtype) -> None:
    blocks = torch.arange(4 * 34, dtype=torch.uint8).view(4, 34)
    quantized, norm = QuantizedTensor("Q8_0", blocks, 32), torch.randn(32)
    half = torch.randn(4, 32).half()
    weights = DequantizedWeights(Stored(up=quantized, norm=norm, down=half), dtype)
    assert list(weights.names) == ["up", "norm", "down"]
    assert torch.equal(weights.get("up"), dequantize(quantized, dtype))
    assert torch.equal(weights.get("down"), half.to(dtype))
    assert weights.get("norm") is norm
