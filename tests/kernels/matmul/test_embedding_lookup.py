from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.matmul.linear import embedding_reference

MakeQuantized = Callable[..., QuantizedTensor]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_looked_up_rows_equal_those_of_the_whole_matrix(
    make_quantized: MakeQuantized, dtype: torch.dtype
) -> None:
    weight = make_quantized("Q6_K", 300, 512, tame=True)
    tokens = torch.tensor([299, 0, 7, 7])
    expected = dequantize(weight, dtype)[tokens]
    assert torch.equal(embedding_reference(tokens, weight, dtype), expected)
    assert torch.equal(embedding_reference(tokens, dequantize(weight), dtype), expected)


def test_no_tokens(make_quantized: MakeQuantized) -> None:
    none = torch.empty(0, dtype=torch.int64)
    assert embedding_reference(none, make_quantized("Q4_K", 4, 256), torch.float32).shape == (
        0,
        256,
    )
