"""Activations of linear layers: 16-bit or float32 values, int8 tiles with scales, or both."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Activations:
    """Dense values (tokens, size) of a float type, int8 `tiles` (see `q8_tiles`), or both.

    `tiles` are (tiles, tokens, 1536). Either is None if no layer reads that form.
    """

    size: int
    dense: torch.Tensor | None = None
    tiles: torch.Tensor | None = None

    @property
    def tokens(self) -> int:
        """The number of rows."""
        if self.dense is not None:
            return self.dense.shape[0]
        assert self.tiles is not None
        return self.tiles.shape[1]
