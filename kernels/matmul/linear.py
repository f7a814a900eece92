"""A linear layer in plain torch, for every weight format."""

from __future__ import annotations

import torch
from torch.nn.functional import linear as dense_linear

from ..formats.dequantize import dequantize, row_chunks
from ..formats.nf4_tensor import NF4Tensor
from ..formats.weight import Weight


def linear(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`x` (..., columns) by the transpose of `weight` (rows, columns), plus `bias` (rows,).

    The result (..., rows) has x's dtype and is accumulated in float32.
    """
    return linear_reference(x, weight, bias)


def linear_reference(
    x: torch.Tensor, weight: Weight, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """`linear` in plain torch: other weights than x's dtype are converted, some at a time."""
    if bias is not None:
        bias = bias.to(x.dtype)
    if isinstance(weight, torch.Tensor) and weight.dtype == x.dtype:
        return dense_linear(x, weight, bias)
    if isinstance(weight, NF4Tensor):
        weight = weight.unnested()  # once, rather than for every chunk
    rows, columns = weight.shape
    out = x.new_empty(*x.shape[:-1], rows)
    # The LM head of a large vocabulary would take gigabytes if converted at once.
    for part in row_chunks(rows, columns, x.device):
        some = None if bias is None else bias[part]
        out[..., part] = dense_linear(x, _dense(weight, part, x.dtype), some)
    return out


def _dense(weight: Weight, rows: slice, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(weight, torch.Tensor):
        return weight[rows].to(dtype)
    return dequantize(weight.rows(rows), dtype)
