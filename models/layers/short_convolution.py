"""The gated short convolution of LFM2, which has the place of attention in most layers."""

from __future__ import annotations

from functools import partial

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.recurrent.causal_convolution import Convolution
from ingle.kernels.recurrent.recurrent_shapes import ShortConvShape
from ingle.kernels.recurrent.short_convolution import advance_short_convolution

from .attention import AttentionContext
from .parameters import Parameters
from .rotary_embedding import RotaryTables
from .state_context import pooled_states_of, states_of


class ShortConvolution:
    """`after * convolution(before * x)`, which the layer `output` projects back.

    `before`, `after` and `x` are thirds of one projection.
    """

    def __init__(
        self, layer: int, hidden: int, config: ShortConvShape, parameters: Parameters
    ) -> None:
        self._layer = layer
        self._operations = parameters.operations
        name, channels = f"blk.{layer}.shortconv", config.channels
        self._input = parameters.linear(f"{name}.in_proj", 3 * channels, hidden)
        self._convolution = Convolution(
            parameters.floats(f"{name}.conv.weight", (channels, config.kernel)),
            parameters.optional_vector(f"{name}.conv.bias", channels),
        )
        self._advance = partial(advance_short_convolution, self._convolution)
        self._kernel = self._operations.recurrent.short_convolution(config)
        self.output = parameters.linear(f"{name}.out_proj", hidden, channels)

    def __call__(
        self, x: Activations, tables: RotaryTables | None, context: AttentionContext
    ) -> Activations:
        """The input of the layer `output`, (tokens, channels)."""
        del tables
        (thirds,) = self._operations.linear(x, self._input)
        if self._kernel is not None:
            return self._kernel(thirds, self._convolution, pooled_states_of(context, self._layer))
        found = states_of(context).scan(self._layer, (thirds,), self._advance)
        return self._operations.activations(found)
