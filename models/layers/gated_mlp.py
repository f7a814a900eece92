"""The MLP of a layer: two projections, one of them gating the other, and one back."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.elementwise.gated_activation import (
    GateActivation,
    gated_activation_reference,
)

from ..config.model_config import Activation, ModelConfig
from .parameters import Parameters

_ACTIVATIONS: Mapping[Activation, GateActivation] = {
    Activation.SILU: "silu",
    Activation.GELU_TANH: "gelu_tanh",
    Activation.CLAMPED_SILU: "clamped_silu",
    Activation.RELU_SQUARED: "relu",  # of what it is multiplied with
}


class GatedMLP:
    """`activation(gate(x)) * up(x)`, which the layer `down` projects back.

    With `sparsity` only what a gate has above a bound counts: so many standard deviations above the
    mean of all gates of the token.
    """

    def __init__(
        self,
        name: str,
        width: int,
        config: ModelConfig,
        parameters: Parameters,
        sparsity: float | None = None,
    ) -> None:
        """`name` is that of the three tensors, with `{}` for `gate`, `up` and `down`."""
        hidden = config.hidden_size
        self._operations = parameters.operations
        self._gate = parameters.linear(name.format("gate"), width, hidden)
        self._up = parameters.linear(name.format("up"), width, hidden)
        self.down = parameters.linear(name.format("down"), hidden, width)
        self._activation: GateActivation = gate_activation(config)
        self._sparsity = sparsity

    def __call__(self, x: Activations) -> Activations:
        """The input of `down`, (tokens, width)."""
        if self._sparsity is None:
            return self._operations.gated_linear(x, self._gate, self._up, self._activation)
        gates, ups = self._operations.linear(x, self._gate, self._up)
        spread, mean = torch.std_mean(gates.float(), -1, correction=0, keepdim=True)
        gates = (gates - (mean + self._sparsity * spread)).relu().to(ups.dtype)
        opened = gated_activation_reference(gates, ups, self._activation)
        return self._operations.activations(opened)


def gate_activation(config: ModelConfig) -> GateActivation:
    """The activation of the gates of a model."""
    return _ACTIVATIONS[config.activation]
