"""The gated DeltaNet of Qwen3-Next and Qwen3.5, which has the place of attention in most layers."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn.functional import silu

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.recurrent.causal_convolution import Convolution
from ingle.kernels.recurrent.delta_net import (
    DeltaNetInput,
    DeltaNetWeights,
    advance_delta_net,
    delta_gates,
)
from ingle.kernels.recurrent.recurrent_shapes import DeltaNetShape

from ..config.model_config import ModelConfig
from .attention import AttentionContext
from .parameters import Parameters
from .rotary_embedding import RotaryTables
from .state_context import pooled_states_of, states_of


class GatedDeltaNet:
    """`norm(delta_rule(convolution(x))) * silu(gate(x))`, which the layer `output` projects back.

    Queries, keys and values are convolved; each head has a rate and a decay for every token.
    """

    def __init__(
        self, layer: int, model: ModelConfig, config: DeltaNetShape, parameters: Parameters
    ) -> None:
        self._layer = layer
        operations = self._operations = parameters.operations
        name, hidden, heads = f"blk.{layer}", model.hidden_size, config.value_heads
        width = config.value_width
        self._inputs = operations.stack(
            parameters.linear(f"{name}.attn_qkv", config.channels, hidden),
            parameters.linear(f"{name}.attn_gate", width, hidden),
        )
        if parameters.has(f"{name}.ssm_ba.weight"):
            self._rates = (parameters.linear(f"{name}.ssm_ba", 2 * heads, hidden),)
        else:
            self._rates = operations.stack(
                parameters.linear(f"{name}.ssm_beta", heads, hidden),
                parameters.linear(f"{name}.ssm_alpha", heads, hidden),
            )
        self._norm = parameters.norm(f"{name}.ssm_norm", config.value_size, model.norm_epsilon)
        self._weights = DeltaNetWeights(
            Convolution(
                parameters.floats(f"{name}.ssm_conv1d.weight", (config.channels, config.kernel))
            ),
            parameters.vector(f"{name}.ssm_a", heads),
            parameters.vector(f"{name}.ssm_dt.bias", heads),
            self._norm.of_rows,
        )
        self.output = parameters.linear(f"{name}.ssm_out", hidden, width)
        self._shape = config
        self._advance = partial(advance_delta_net, config, self._weights)
        self._kernels = operations.recurrent.delta_net(self._shape)

    def __call__(
        self, x: Activations, tables: RotaryTables | None, context: AttentionContext
    ) -> Activations:
        """The input of the layer `output`, (tokens, value_heads * value_size)."""
        del tables
        mixed, gate = self._operations.linear(x, *self._inputs)
        inputs = DeltaNetInput(
            mixed, gate, *self._operations.linear(x, *self._rates, dtype=torch.float32)
        )
        if self._kernels is not None:
            return self._kernels(inputs, self._weights, pooled_states_of(context, self._layer))
        gates = delta_gates(inputs, self._shape, self._weights)
        found = states_of(context).scan(self._layer, (mixed, *gates), self._advance)
        rows = self._norm.as_tensor(found.reshape(-1, self._shape.value_size))
        rows = rows.float() * silu(gate.float()).reshape(rows.shape)
        return self._operations.activations(rows.view(len(gate), -1))
