"""Root-mean-square normalisation with a learnt weight."""

from __future__ import annotations

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.operations import Operations


class RMSNorm:
    """Normalises the last dimension; the weight (size,) fp32 multiplies as it is."""

    def __init__(self, operations: Operations, weight: torch.Tensor, epsilon: float) -> None:
        self.weight = weight
        self.epsilon = epsilon
        self._operations = operations

    def __call__(self, rows: torch.Tensor) -> Activations:
        """Rows (tokens, size) of any float type, normalised."""
        return self._operations.rms_norm(rows, self.weight, self.epsilon)

    def numbers(self, rows: torch.Tensor) -> torch.Tensor:
        """The same for who is no linear layer, in the type of activations."""
        found = self._operations.rms_norm(rows, self.weight, self.epsilon, dense=True).dense
        assert found is not None
        return found

    def add_to(self, residual: torch.Tensor, rows: torch.Tensor) -> None:
        """Add normalised `rows` (tokens, size) to the residual stream."""
        self._operations.rms_norm_add(residual, rows, self.weight, self.epsilon)
