"""Low-rank adapters of linear layers: several in one step, each for some of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch


class LowRank(NamedTuple):
    """What an adapter adds: `up` (outputs, rank), scaled, times `down` (rank, inputs)."""

    down: torch.Tensor
    up: torch.Tensor

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.down.nbytes + self.up.nbytes


Observer = Callable[["LayerAdapters", torch.Tensor], None]
"""Gets the inputs (tokens, inputs) of a layer."""


class ActiveAdapters:
    """The rows of the current step that each adapter applies to, (rows,) int64, by its number.

    An `observer` gets the inputs of every layer that can have adapters.
    """

    def __init__(self) -> None:
        self.rows: Mapping[int, torch.Tensor] = {}
        self.observer: Observer | None = None

    @property
    def any(self) -> bool:
        """Whether layers need their inputs for more than their own product."""
        return bool(self.rows) or self.observer is not None


class LayerAdapters:
    """The adapters of one linear layer, by their numbers."""

    def __init__(self, active: ActiveAdapters) -> None:
        self.matrices: dict[int, LowRank] = {}
        self._active = active

    @property
    def apply(self) -> bool:
        """Whether something needs the inputs of the layer in the current step."""
        if self._active.observer is not None:
            return True
        return any(number in self.matrices for number in self._active.rows)

    def add_to(self, out: torch.Tensor, x: torch.Tensor, scale: float = 1.0) -> None:
        """Add what the adapters make of `x` (tokens, inputs), times `scale`, to rows of `out`."""
        if self._active.observer is not None:
            self._active.observer(self, x)
        for number, rows in self._active.rows.items():
            matrices = self.matrices.get(number)
            if matrices is not None:
                shrunk = x[rows].to(matrices.down.dtype) @ matrices.down.T
                out.index_add_(0, rows, (shrunk @ matrices.up.T).to(out.dtype), alpha=scale)
