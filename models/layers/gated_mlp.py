"""The feed-forward part of a block."""

from __future__ import annotations

import torch

from ingle.kernels.gated_activation import GateActivation, gated_activation

from ..config import Activation, ModelConfig
from .parameters import Parameters


class GatedMLP:
    """`down(activation(gate(x)) * up(x))`."""

    def __init__(self, layer: int, config: ModelConfig, parameters: Parameters) -> None:
        hidden, width, prefix = config.hidden_size, config.intermediate_size, f"blk.{layer}.ffn"
        self._gate = parameters.linear(f"{prefix}_gate", width, hidden)
        self._up = parameters.linear(f"{prefix}_up", width, hidden)
        self._down = parameters.linear(f"{prefix}_down", hidden, width)
        self._activation: GateActivation = (
            "silu" if config.activation is Activation.SILU else "gelu_tanh"
        )

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Outputs (tokens, hidden) of `rows` (tokens, hidden)."""
        return self._down(gated_activation(self._gate(rows), self._up(rows), self._activation))
