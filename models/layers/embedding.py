"""The vectors that tokens become."""

from __future__ import annotations

import torch

from ingle.kernels.formats.prepared_weight import PreparedWeight
from ingle.kernels.operations import Operations


class Embedding:
    """A table with one row a token, dense or quantised."""

    def __init__(self, operations: Operations, weight: PreparedWeight, scale: float) -> None:
        self.weight = weight
        self._operations = operations
        self._scale = scale

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Scaled rows (tokens, width) fp32 of `token_ids` (tokens,)."""
        return self._operations.embed(token_ids, self.weight, self._scale)
