"""The causal convolution equals torch's, however the tokens are divided into calls."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from ingle.kernels.recurrent.causal_convolution import causal_convolution_reference


@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("has_bias", [False, True])
def test_outputs_equal_those_of_torch(kernel: int, has_bias: bool) -> None:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(2, 17, 5, generator=random)
    weight = torch.randn(5, kernel, generator=random)
    bias = torch.randn(5, generator=random) if has_bias else None
    padded = torch.nn.functional.pad(x.transpose(1, 2), (kernel - 1, 0))
    expected = torch.conv1d(padded, weight[:, None], bias, groups=5).transpose(1, 2)
    found, state = causal_convolution_reference(x, torch.zeros(2, 5, kernel - 1), weight, bias)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(state, x.transpose(1, 2)[..., 1 - kernel :])


def test_chunks_give_the_same_bits() -> None:
    random = torch.Generator().manual_seed(2)
    x, weight = torch.randn(1, 40, 6, generator=random), torch.randn(6, 4, generator=random)
    whole, end = causal_convolution_reference(x, torch.zeros(1, 6, 3), weight)
    state, parts = torch.zeros(1, 6, 3), list[torch.Tensor]()
    for start, stop in pairwise([0, 1, 3, 23, 24, 40]):
        output, state = causal_convolution_reference(x[:, start:stop], state, weight)
        parts.append(output)
    assert torch.equal(torch.cat(parts, 1), whole)
    assert torch.equal(state, end)
