"""The gated MLP of a block."""

from __future__ import annotations

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.elementwise.gated_activation import GateActivation

from ..config.model_config import Activation, ModelConfig
from .parameters import Parameters


class GatedMLP:
    """`activation(gate(x)) * up(x)`, which the layer `down` projects back."""

    def __init__(self, layer: int, config: ModelConfig, parameters: Parameters) -> None:
        hidden, width, prefix = config.hidden_size, config.intermediate_size, f"blk.{layer}.ffn"
        self._operations = parameters.operations
        self._gate = parameters.linear(f"{prefix}_gate", width, hidden)
        self._up = parameters.linear(f"{prefix}_up", width, hidden)
        self.down = parameters.linear(f"{prefix}_down", hidden, width)
        self._activation: GateActivation = (
            "silu" if config.activation is Activation.SILU else "gelu_tanh"
        )

    def __call__(self, x: Activations) -> Activations:
        """The input of `down`, (tokens, width)."""
        return self._operations.gated_linear(x, self._gate, self._up, self._activation)
