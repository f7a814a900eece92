"""A named range of rows of a stored tensor, for tensors that a file fuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch

from ingle.kernels.formats.weight import Weight

from .weights import Weights


@dataclass(frozen=True)
class TensorPart:
    """The rows `rows` of the tensor `source`, which should have `total` rows; None: all of them."""

    source: str
    rows: slice | None = None
    total: int = 0

    def read(self, weights: Weights) -> Weight:
        """The rows; all of them if their number is not `total`, so that the shape check fails."""
        weight = weights.get(self.source)
        if self.rows is None or weight.shape[:1] != (self.total,):
            return weight
        return rows_of(weight, self.rows)


def split_tensor(source: str, sizes: Mapping[str, int]) -> dict[str, TensorPart]:
    """Consecutive parts, by their names and numbers of rows."""
    ends = list(accumulate(sizes.values()))
    return {
        name: TensorPart(source, slice(end - size, end), ends[-1])
        for (name, size), end in zip(sizes.items(), ends, strict=True)
    }


def rows_of(weight: Weight, index: slice | torch.Tensor) -> Weight:
    """The rows at `index` of a matrix, dense or quantised, or those elements of a vector."""
    return weight[index] if isinstance(weight, torch.Tensor) else weight.rows(index)
