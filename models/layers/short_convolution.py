"""The gated short convolution of LFM2, which has the place of attention in most layers."""

from __future__ import annotations

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.recurrent.causal_convolution import causal_convolution_reference

from ..config.recurrent_config import ShortConvConfig
from .attention import AttentionContext
from .parameters import Parameters
from .rotary_embedding import RotaryTables
from .state_context import States, states_of


class ShortConvolution:
    """`after * convolution(before * x)`, which the layer `output` projects back.

    `before`, `after` and `x` are thirds of one projection.
    """

    def __init__(
        self, layer: int, hidden: int, config: ShortConvConfig, parameters: Parameters
    ) -> None:
        self._layer = layer
        self._operations = parameters.operations
        name, channels = f"blk.{layer}.shortconv", config.channels
        self._input = parameters.linear(f"{name}.in_proj", 3 * channels, hidden)
        self._weight = parameters.floats(f"{name}.conv.weight", (channels, config.kernel))
        self._bias = parameters.optional_vector(f"{name}.conv.bias", channels)
        self.output = parameters.linear(f"{name}.out_proj", hidden, channels)

    def __call__(
        self, x: Activations, tables: RotaryTables | None, context: AttentionContext
    ) -> Activations:
        """The input of the layer `output`, (tokens, channels)."""
        del tables
        (together,) = self._operations.linear(x, self._input)
        before, after, values = together.chunk(3, -1)
        mixed = states_of(context).scan(self._layer, (before * values,), self._advance)
        return self._operations.activations(after * mixed)

    def _advance(self, inputs: States, states: States) -> tuple[torch.Tensor, States]:
        (x,), (state,) = inputs, states
        output, state = causal_convolution_reference(x, state, self._weight, self._bias)
        return output, (state,)
