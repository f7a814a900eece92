"""Some rows of a weight, dense or quantised."""

from __future__ import annotations

import torch

from .weights import Weight


def rows_of(weight: Weight, index: slice | torch.Tensor) -> Weight:
    """The rows at `index`, of a matrix or of the elements of a vector, without loss."""
    return weight[index] if isinstance(weight, torch.Tensor) else weight.rows(index)
