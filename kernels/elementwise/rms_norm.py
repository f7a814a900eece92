"""Root-mean-square norm of rows, in plain torch."""

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
    """RMS norm of rows (..., size) of any float type, times `weight` (size,), as `dtype`."""
    return rms_norm_reference(rows, weight, epsilon, dtype)
