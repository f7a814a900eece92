"""The vectors that tokens become."""

from __future__ import annotations

import torch

from ingle.kernels.embedding import embedding

from ..weights import Weight


class Embedding:
    """A table with one row a token, dense or quantised."""

    def __init__(self, weight: Weight, scale: float) -> None:
        self.weight = weight
        self._scale = scale

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Scaled rows (tokens, width) fp32 of `token_ids` (tokens,)."""
        return embedding(token_ids, self.weight, torch.float32) * self._scale
