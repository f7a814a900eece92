"""What pictures change in the input of a transformer."""

from __future__ import annotations

from typing import NamedTuple

import torch


class PictureInput(NamedTuple):
    """The embeddings (n, hidden) fp32 of the tokens at `rows` (n,) int64, as they are.

    `positions` (axes, tokens) int64 are those of all tokens of the step, if any has several axes.
    """

    rows: torch.Tensor
    embeddings: torch.Tensor
    positions: torch.Tensor | None = None
