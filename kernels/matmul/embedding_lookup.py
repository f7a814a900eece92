"""Look up rows of an embedding matrix of any weight format."""

from __future__ import annotations

import torch

from ..formats.dequantize import dequantize
from ..formats.weight import Weight


def embedding(token_ids: torch.Tensor, weight: Weight, dtype: torch.dtype) -> torch.Tensor:
    """The rows (tokens, columns) of `weight` for `token_ids` (tokens,), in `dtype`."""
    return embedding_reference(token_ids, weight, dtype)


def embedding_reference(
    token_ids: torch.Tensor, weight: Weight, dtype: torch.dtype
) -> torch.Tensor:
    """`embedding` in plain torch: only the rows asked for are dequantised."""
    if isinstance(weight, torch.Tensor):
        return weight[token_ids].to(dtype)
    return dequantize(weight.rows(token_ids), dtype)
