"""What recurrent layers know of the step that they compute: the states of its sequences."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch

from ingle.kernels.recurrent.pooled_states import Advance, PooledStates, States

from .attention import AttentionContext


@runtime_checkable
class StateContext(Protocol):
    """One step's view of the states that recurrent layers keep of its sequences."""

    def scan(self, layer: int, inputs: States, advance: Advance) -> torch.Tensor:
        """Outputs (tokens, ...) of inputs (tokens, ...), sequence by sequence.

        Each sequence begins with the states that its tokens so far left, or with zeros.
        """
        ...


@runtime_checkable
class PooledStatesContext(Protocol):
    """The same for kernels, which advance all sequences in the rows of a pool."""

    def rows(self, layer: int) -> PooledStates:
        """The layer's states, and what the step does with their rows."""
        ...


def states_of(context: AttentionContext) -> StateContext:
    """The same context; raises `TypeError` if it has no states."""
    if not isinstance(context, StateContext):
        raise TypeError(f"{context} has no states for recurrent layers.")
    return context


def pooled_states_of(context: AttentionContext, layer: int) -> PooledStates:
    """The rows of a layer's states; raises `TypeError` if the context has none."""
    if not isinstance(context, PooledStatesContext):
        raise TypeError(f"{context} has no rows of states for kernels.")
    return context.rows(layer)
