"""Root-mean-square normalisation with a learnt weight."""

from __future__ import annotations

import torch

from ingle.kernels.rms_norm import rms_norm


class RMSNorm:
    """Normalises the last dimension; the weight (size,) fp32 multiplies as it is."""

    def __init__(self, weight: torch.Tensor, epsilon: float, dtype: torch.dtype) -> None:
        self.weight = weight
        self._epsilon = epsilon
        self._dtype = dtype

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows (..., size) of any float type, normalised, in the type of the activations."""
        return rms_norm(rows, self.weight, self._epsilon, self._dtype)
