"""The state space layer of Mamba-2, which has the place of attention in most layers of hybrids."""

from __future__ import annotations

import torch
from torch.nn.functional import silu, softplus

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.elementwise.rms_norm import rms_norm_reference
from ingle.kernels.recurrent.causal_convolution import causal_convolution_reference
from ingle.kernels.recurrent.state_space import state_space_reference

from ..config.model_config import ModelConfig
from ..config.recurrent_config import StateSpaceConfig
from .attention import AttentionContext
from .parameters import Parameters
from .rotary_embedding import RotaryTables
from .state_context import States, states_of


class StateSpace:
    """`norm(scan(convolution(x)) * silu(gate(x)))`, which the layer `output` projects back.

    One projection gives the gate, what is convolved (inputs, and where a token writes and reads),
    and how long each head's step is. The norm is over each group of heads.
    """

    def __init__(
        self, layer: int, model: ModelConfig, config: StateSpaceConfig, parameters: Parameters
    ) -> None:
        self._layer, self._config = layer, config
        self._operations = parameters.operations
        self._epsilon = model.norm_epsilon
        name, hidden = f"blk.{layer}", model.hidden_size
        projected = config.width + config.channels + config.heads
        self._input = parameters.linear(f"{name}.ssm_in", projected, hidden)
        self._weight = parameters.floats(
            f"{name}.ssm_conv1d.weight", (config.channels, config.kernel)
        )
        self._bias = parameters.optional_vector(f"{name}.ssm_conv1d.bias", config.channels)
        self._step_bias = parameters.vector(f"{name}.ssm_dt.bias", config.heads)
        self._decay = parameters.vector(f"{name}.ssm_a", config.heads)
        self._skip = parameters.vector(f"{name}.ssm_d", config.heads)[:, None]
        norm = parameters.vector(f"{name}.ssm_norm.weight", config.width)
        self._norm = norm.view(config.groups, -1)
        self.output = parameters.linear(f"{name}.ssm_out", hidden, config.width)

    def __call__(
        self, x: Activations, tables: RotaryTables | None, context: AttentionContext
    ) -> Activations:
        """The input of the layer `output`, (tokens, heads * head_size)."""
        del tables
        config = self._config
        (together,) = self._operations.linear(x, self._input, dtype=torch.float32)
        end = config.width + config.channels
        step = softplus(together[:, end:] + self._step_bias)
        inputs = together[:, config.width : end], step
        found = states_of(context).scan(self._layer, inputs, self._advance).flatten(1)
        rows = found * silu(together[:, : config.width])
        rows = rows.view(len(rows), config.groups, -1)
        rows = rms_norm_reference(rows, self._norm, self._epsilon, torch.float32)
        return self._operations.activations(rows.flatten(1))

    def _advance(self, inputs: States, states: States) -> tuple[torch.Tensor, States]:
        config = self._config
        (mixed, step), (before, state) = inputs, states
        mixed, before = causal_convolution_reference(mixed, before, self._weight, self._bias)
        mixed = silu(mixed)
        x = mixed[..., : config.width].reshape(*step.shape, config.head_size)
        groups = mixed[..., config.width :].reshape(
            *step.shape[:2], 2, config.groups, config.state_size
        )
        output, state = state_space_reference(
            x, step, self._decay, groups[:, :, 0], groups[:, :, 1], state
        )
        return output + x * self._skip, (before, state)
