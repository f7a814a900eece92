"""A state space of Mamba-2 between its projections, in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn.functional import silu, softplus

from ..elementwise.activations import Activations
from ..elementwise.rms_norm import Norm, rms_norm_reference
from .causal_convolution import Convolution, causal_convolution_reference
from .pooled_states import PooledStates, States
from .recurrent_shapes import StateSpaceShape
from .state_space import state_space_reference


class StateSpaceWeights(NamedTuple):
    """All fp32: decay, bias and skip are (heads,), the norm's weight (width,) for all groups."""

    convolution: Convolution
    decay: torch.Tensor
    bias: torch.Tensor
    skip: torch.Tensor
    norm: Norm


class StateSpaceInput(NamedTuple):
    """`gate` (tokens, width), `mixed` (tokens, channels) and `steps` (tokens, heads), all fp32.

    `mixed` are the inputs of all heads, where each group writes, and where it reads, not convolved
    yet; `steps` are before their activation.
    """

    gate: torch.Tensor
    mixed: torch.Tensor
    steps: torch.Tensor

    @classmethod
    def of(cls, together: torch.Tensor, shape: StateSpaceShape) -> StateSpaceInput:
        """The parts of one projection (tokens, width + channels + heads)."""
        end = shape.width + shape.channels
        return cls(together[:, : shape.width], together[:, shape.width : end], together[:, end:])


StateSpaceLayer = Callable[[StateSpaceInput, StateSpaceWeights, PooledStates], Activations]
"""`norm(scan(silu(convolution(mixed))) * silu(gate))`, (tokens, width), a norm for each group.

The states are inputs (rows, channels, kernel - 1), and matrices (rows, heads, state_size,
head_size).
"""


def advance_state_space(
    shape: StateSpaceShape, weights: StateSpaceWeights, inputs: States, states: States
) -> tuple[torch.Tensor, States]:
    """What tokens read (batch, tokens, heads, head_size); see `Advance`.

    `inputs` are `mixed` and `steps` of a `StateSpaceInput`.
    """
    (mixed, steps), (before, state) = inputs, states
    mixed, before = causal_convolution_reference(mixed, before, *weights.convolution)
    mixed = silu(mixed)
    x = mixed[..., : shape.width].reshape(*steps.shape, shape.head_size)
    places = mixed[..., shape.width :].reshape(*steps.shape[:2], 2, shape.groups, shape.state_size)
    lasting = softplus(steps + weights.bias)
    write, read = places.unbind(2)
    found, state = state_space_reference(x, lasting, weights.decay, write, read, state)
    return found + x * weights.skip[:, None], (before, state)


def gated_group_norm(
    rows: torch.Tensor, gate: torch.Tensor, shape: StateSpaceShape, norm: Norm
) -> torch.Tensor:
    """`norm(rows * silu(gate))`, (tokens, width) fp32, for each group of heads."""
    gated = (rows * silu(gate)).view(len(rows), shape.groups, -1)
    weight = norm.weight.view(shape.groups, -1)
    return rms_norm_reference(gated, weight, norm.epsilon, torch.float32).flatten(1)
