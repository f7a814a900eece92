"""A gated DeltaNet between its projections, in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn.functional import silu, softplus

from ..elementwise.activations import Activations
from ..elementwise.rms_norm import Norm
from .causal_convolution import Convolution, causal_convolution_reference
from .gated_delta import gated_delta_reference
from .pooled_states import PooledStates, States
from .recurrent_shapes import DeltaNetShape


class DeltaNetWeights(NamedTuple):
    """All fp32: decay and bias are (value_heads,), the norm is that of a head."""

    convolution: Convolution
    decay: torch.Tensor
    bias: torch.Tensor
    norm: Norm


class DeltaNetInput(NamedTuple):
    """`mixed` (tokens, channels) queries, keys and values, and `gate` (tokens, value_width).

    `rates` and `steps` are (tokens, value_heads) fp32 before their activations. Without `steps`
    `rates` has both, (tokens, 2 * value_heads): the rates and then the steps of each key's heads.
    """

    mixed: torch.Tensor
    gate: torch.Tensor
    rates: torch.Tensor
    steps: torch.Tensor | None = None


DeltaNet = Callable[[DeltaNetInput, DeltaNetWeights, PooledStates], Activations]
"""`norm(delta_rule(silu(convolution(mixed)))) * silu(gate)`, (tokens, value_width).

The states are inputs (rows, channels, kernel - 1), and matrices (rows, value_heads, key_size,
value_size).
"""


def delta_gates(
    x: DeltaNetInput, shape: DeltaNetShape, weights: DeltaNetWeights
) -> tuple[torch.Tensor, torch.Tensor]:
    """How much of each value is corrected, and the logarithm of what is left of the state.

    Both are (tokens, value_heads) fp32.
    """
    rates, steps = x.rates, x.steps
    if steps is None:
        turns = rates.reshape(len(rates), shape.key_heads, 2, -1)
        rates, steps = turns[:, :, 0].flatten(1), turns[:, :, 1].flatten(1)
    return rates.sigmoid(), weights.decay * softplus(steps + weights.bias)


def advance_delta_net(
    shape: DeltaNetShape, weights: DeltaNetWeights, inputs: States, states: States
) -> tuple[torch.Tensor, States]:
    """What the delta rule finds (batch, tokens, value_heads, value_size); see `Advance`.

    `inputs` are `mixed` of a `DeltaNetInput` and `delta_gates`.
    """
    (mixed, rates, decay), (before, state) = inputs, states
    mixed, before = causal_convolution_reference(mixed, before, *weights.convolution)
    mixed, width = silu(mixed), shape.key_width
    value = mixed[..., 2 * width :].reshape(*rates.shape, shape.value_size)
    query = _for_values(mixed[..., :width], shape)
    key = _for_values(mixed[..., width : 2 * width], shape)
    found, state = gated_delta_reference(query, key, value, decay, rates, state)
    return found, (before, state)


def _for_values(rows: torch.Tensor, shape: DeltaNetShape) -> torch.Tensor:
    """Queries or keys (batch, tokens, value_heads, key_size), each for all of its values."""
    heads = rows.reshape(*rows.shape[:-1], shape.key_heads, shape.key_size)
    times = shape.value_heads // shape.key_heads
    if shape.takes_turns:
        return heads.repeat(1, 1, times, 1)
    return heads.repeat_interleave(times, 2)
