"""Root-mean-square normalisation of rows."""

from __future__ import annotations

import torch


def rms_norm_reference(
    rows: torch.Tensor, weight: torch.Tensor, epsilon: float, dtype: torch.dtype
) -> torch.Tensor:
    """`weight * rows / sqrt(mean(rows ** 2) + epsilon)`, computed in fp32."""
    exact = rows.float()
    scale = torch.rsqrt(exact.square().mean(-1, keepdim=True) + epsilon)
    return (exact * scale * weight.float()).to(dtype)


def rms_norm(
    rows: torch.Tensor, weight: torch.Tensor, epsilon: float, dtype: torch.dtype
) -> torch.Tensor:
    """Rows (..., size) of any float type, each brought to length sqrt(size), as `dtype`.

    `weight` is (size,).
    """
    return rms_norm_reference(rows, weight, epsilon, dtype)
