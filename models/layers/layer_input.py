"""What Gemma 3n and 4 tell each layer of a token, beside the residual stream."""

from __future__ import annotations

import math

import torch

from ingle.kernels.elementwise.gated_activation import (
    GateActivation,
    gated_activation_reference,
)

from ..config.model_config import ModelConfig
from .gated_mlp import gate_activation
from .parameters import Parameters


class LayerInputs:
    """The inputs of all layers: rows of a table, and a projection of the token's embedding."""

    def __init__(self, config: ModelConfig, parameters: Parameters) -> None:
        hidden, width = config.hidden_size, config.layer_input_width
        self._width = width
        self._operations = parameters.operations
        total = config.num_layers * width
        self._table = parameters.embedding("per_layer_token_embd", None, total, math.sqrt(width))
        self._rows = self._table.weight.shape[0]
        self._projection = parameters.linear("per_layer_model_proj", total, hidden)
        self._scale = hidden**-0.5
        self._norm = parameters.norm("per_layer_proj_norm", width, config.norm_epsilon)

    def __call__(self, token_ids: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        """(tokens, layers, width) fp32, of `embeddings` (tokens, hidden) fp32.

        Tokens beyond the table count as the first one.
        """
        width = self._width
        named = self._table(token_ids * (token_ids < self._rows))
        (projected,) = self._operations.linear(
            self._operations.activations(embeddings), self._projection, dtype=torch.float32
        )
        projected = self._norm.as_tensor((projected * self._scale).view(-1, width)).float()
        both = named.view(-1, width) + projected
        return (both * 0.5**0.5).view(len(token_ids), -1, width)


class LayerInputGate:
    """What a layer adds for its input: `norm(back(activation(gate(x)) * input))`."""

    def __init__(self, layer: int, config: ModelConfig, parameters: Parameters) -> None:
        hidden, width, prefix = config.hidden_size, config.layer_input_width, f"blk.{layer}"
        self._operations = parameters.operations
        self._activation: GateActivation = gate_activation(config)
        self._gate = parameters.linear(f"{prefix}.inp_gate", width, hidden)
        self._back = parameters.linear(f"{prefix}.proj", hidden, width)
        self._norm = parameters.norm(f"{prefix}.post_norm", hidden, config.norm_epsilon)

    def __call__(self, rows: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) of `rows` of that shape and of the layer's `inputs` (tokens, width)."""
        operations = self._operations
        (gates,) = operations.linear(operations.activations(rows), self._gate)
        opened = gated_activation_reference(gates, inputs.to(gates.dtype), self._activation)
        (found,) = operations.linear(operations.activations(opened), self._back)
        return self._norm.as_tensor(found)
