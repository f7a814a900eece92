"""The linear layer that Gemma 3n has beside attention (LAuReL)."""

from __future__ import annotations

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.operations import dense

from ..config.model_config import ModelConfig
from .parameters import Parameters


class Laurel:
    """Adds `x + norm(right(left(x)))`, and scales the sum by the square root of a half."""

    def __init__(self, layer: int, config: ModelConfig, rank: int, parameters: Parameters) -> None:
        hidden, name = config.hidden_size, f"blk.{layer}.laurel"
        self._operations = parameters.operations
        self._left = parameters.linear(f"{name}_l", rank, hidden)
        self._right = parameters.linear(f"{name}_r", hidden, rank)
        self._norm = parameters.norm(f"{name}_post_norm", hidden, config.norm_epsilon)

    def add_to(self, residual: torch.Tensor, x: Activations) -> None:
        """Change the residual stream (tokens, hidden) fp32, of the input of attention."""
        operations = self._operations
        (narrow,) = operations.linear(x, self._left)
        (rows,) = operations.linear(operations.activations(narrow), self._right)
        self._norm.add_to(residual, rows)
        residual.add_(dense(x)).mul_(0.5**0.5)
