"""What linear layers multiply: rows of numbers, and the same rows as bytes with scales."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Activations:
    """`dense` (tokens, size) of a float type, and `tiles` (tiles, tokens, 1536) as `q8_tiles` has.

    One of them may be missing, where nobody reads it.
    """

    size: int
    dense: torch.Tensor | None = None
    tiles: torch.Tensor | None = None

    @property
    def tokens(self) -> int:
        """How many rows there are."""
        if self.dense is not None:
            return self.dense.shape[0]
        assert self.tiles is not None
        return self.tiles.shape[1]
