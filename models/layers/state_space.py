"""The state space layer of Mamba-2, which has the place of attention in most layers of hybrids."""

from __future__ import annotations

from functools import partial

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.elementwise.rms_norm import Norm
from ingle.kernels.recurrent.causal_convolution import Convolution
from ingle.kernels.recurrent.recurrent_shapes import StateSpaceShape
from ingle.kernels.recurrent.state_space_layer import (
    StateSpaceInput,
    StateSpaceWeights,
    advance_state_space,
    gated_group_norm,
)

from ..config.model_config import ModelConfig
from .attention import AttentionContext
from .parameters import Parameters
from .rotary_embedding import RotaryTables
from .state_context import pooled_states_of, states_of


class StateSpace:
    """`norm(scan(convolution(x)) * silu(gate(x)))`, which the layer `output` projects back.

    One projection gives the gate, what is convolved (inputs, and where a token writes and reads),
    and how long each head's step is. The norm is over each group of heads.
    """

    def __init__(
        self, layer: int, model: ModelConfig, config: StateSpaceShape, parameters: Parameters
    ) -> None:
        self._layer, self._shape = layer, config
        operations = self._operations = parameters.operations
        name, hidden, heads = f"blk.{layer}", model.hidden_size, config.heads
        projected = config.width + config.channels + heads
        self._input = parameters.linear(f"{name}.ssm_in", projected, hidden)
        self._weights = StateSpaceWeights(
            Convolution(
                parameters.floats(f"{name}.ssm_conv1d.weight", (config.channels, config.kernel)),
                parameters.optional_vector(f"{name}.ssm_conv1d.bias", config.channels),
            ),
            parameters.vector(f"{name}.ssm_a", heads),
            parameters.vector(f"{name}.ssm_dt.bias", heads),
            parameters.vector(f"{name}.ssm_d", heads),
            Norm(parameters.vector(f"{name}.ssm_norm.weight", config.width), model.norm_epsilon),
        )
        self._advance = partial(advance_state_space, config, self._weights)
        self._kernels = operations.recurrent.state_space(config)
        self.output = parameters.linear(f"{name}.ssm_out", hidden, config.width)

    def __call__(
        self, x: Activations, tables: RotaryTables | None, context: AttentionContext
    ) -> Activations:
        """The input of the layer `output`, (tokens, heads * head_size)."""
        del tables
        (together,) = self._operations.linear(x, self._input, dtype=torch.float32)
        inputs = StateSpaceInput.of(together, self._shape)
        if self._kernels is not None:
            return self._kernels(inputs, self._weights, pooled_states_of(context, self._layer))
        scanned = inputs.mixed, inputs.steps
        found = states_of(context).scan(self._layer, scanned, self._advance).flatten(1)
        rows = gated_group_norm(found, inputs.gate, self._shape, self._weights.norm)
        return self._operations.activations(rows)
