"""A matrix product with weights as their file stores them, dense or quantised."""

from __future__ import annotations

import torch

from ingle.kernels.linear import linear

from ..weights import Weight


class Linear:
    """`x @ weight.T + bias`; the weight is (outputs, inputs)."""

    def __init__(self, weight: Weight, bias: torch.Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Outputs (tokens, outputs) of `rows` (tokens, inputs), in the same type."""
        return linear(rows, self.weight, self.bias)
