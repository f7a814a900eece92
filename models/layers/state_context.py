"""What recurrent layers know of the step that they compute: the states of its sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch

from .attention import AttentionContext

States = tuple[torch.Tensor, ...]
Advance = Callable[[States, States], tuple[torch.Tensor, States]]
"""Outputs (sequences, tokens, ...), and the states (sequences, ...) after the last token.

Of inputs (sequences, tokens, ...) and the states before the first one.
"""


@runtime_checkable
class StateContext(Protocol):
    """One step's view of the states that recurrent layers keep of its sequences."""

    def scan(self, layer: int, inputs: States, advance: Advance) -> torch.Tensor:
        """Outputs (tokens, ...) of inputs (tokens, ...), sequence by sequence.

        Each sequence begins with the states that its tokens so far left, or with zeros.
        """
        ...


def states_of(context: AttentionContext) -> StateContext:
    """The same context; raises `TypeError` if it has no states."""
    if not isinstance(context, StateContext):
        raise TypeError(f"{context} has no states for recurrent layers.")
    return context
