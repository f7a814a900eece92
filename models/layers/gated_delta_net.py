"""The gated DeltaNet of Qwen3-Next and Qwen3.5, which has the place of attention in most layers."""

from __future__ import annotations

import torch
from torch.nn.functional import silu, softplus

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.recurrent.causal_convolution import causal_convolution_reference
from ingle.kernels.recurrent.gated_delta import gated_delta_reference

from ..config.model_config import ModelConfig
from ..config.recurrent_config import DeltaNetConfig
from .attention import AttentionContext
from .parameters import Parameters
from .rotary_embedding import RotaryTables
from .state_context import States, states_of


class GatedDeltaNet:
    """`norm(delta_rule(convolution(x))) * silu(gate(x))`, which the layer `output` projects back.

    Queries, keys and values are convolved; each head has a rate and a decay for every token.
    """

    def __init__(
        self, layer: int, model: ModelConfig, config: DeltaNetConfig, parameters: Parameters
    ) -> None:
        self._layer, self._config = layer, config
        self._operations = parameters.operations
        name, hidden, heads = f"blk.{layer}", model.hidden_size, config.value_heads
        width = config.value_width
        self._input = parameters.linear(f"{name}.attn_qkv", config.channels, hidden)
        self._gate = parameters.linear(f"{name}.attn_gate", width, hidden)
        self._joint = parameters.has(f"{name}.ssm_ba.weight")
        """Whether rates and decays have one projection, in turns for the heads of each key."""
        if self._joint:
            self._rates = (parameters.linear(f"{name}.ssm_ba", 2 * heads, hidden),)
        else:
            self._rates = (
                parameters.linear(f"{name}.ssm_beta", heads, hidden),
                parameters.linear(f"{name}.ssm_alpha", heads, hidden),
            )
        self._weight = parameters.floats(
            f"{name}.ssm_conv1d.weight", (config.channels, config.kernel)
        )
        self._decay = parameters.vector(f"{name}.ssm_a", heads)
        self._decay_bias = parameters.vector(f"{name}.ssm_dt.bias", heads)
        self._norm = parameters.norm(f"{name}.ssm_norm", config.value_size, model.norm_epsilon)
        self.output = parameters.linear(f"{name}.ssm_out", hidden, width)

    def __call__(
        self, x: Activations, tables: RotaryTables | None, context: AttentionContext
    ) -> Activations:
        """The input of the layer `output`, (tokens, value_heads * value_size)."""
        del tables
        mixed, gate = self._operations.linear(x, self._input, self._gate)
        rate, step = self._rates_of(x)
        decay = self._decay * softplus(step + self._decay_bias)
        inputs = mixed, decay, rate.sigmoid()
        found = states_of(context).scan(self._layer, inputs, self._advance)
        rows = self._norm.as_tensor(found.reshape(-1, self._config.value_size))
        rows = rows.float() * silu(gate.float()).reshape(rows.shape)
        return self._operations.activations(rows.view(len(gate), -1))

    def _rates_of(self, x: Activations) -> tuple[torch.Tensor, torch.Tensor]:
        """Rates and decays of all heads before their activations, (tokens, value_heads) fp32."""
        found = self._operations.linear(x, *self._rates, dtype=torch.float32)
        if not self._joint:
            return found[0], found[1]
        turns = found[0].view(len(found[0]), self._config.key_heads, 2, -1)
        return turns[:, :, 0].flatten(1), turns[:, :, 1].flatten(1)

    def _advance(self, inputs: States, states: States) -> tuple[torch.Tensor, States]:
        config = self._config
        (mixed, decay, rate), (before, state) = inputs, states
        mixed, before = causal_convolution_reference(mixed, before, self._weight)
        mixed, width = silu(mixed), config.key_width
        value = mixed[..., 2 * width :].reshape(*rate.shape, config.value_size)
        query = self._for_values(mixed[..., :width])
        key = self._for_values(mixed[..., width : 2 * width])
        output, state = gated_delta_reference(query, key, value, decay, rate, state)
        return output, (before, state)

    def _for_values(self, rows: torch.Tensor) -> torch.Tensor:
        """Queries or keys (batch, tokens, value_heads, key_size), each for all of its values."""
        config = self._config
        heads = rows.reshape(*rows.shape[:-1], config.key_heads, config.key_size)
        times = config.value_heads // config.key_heads
        if config.takes_turns:
            return heads.repeat(1, 1, times, 1)
        return heads.repeat_interleave(times, 2)
