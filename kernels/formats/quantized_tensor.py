"""A matrix whose weights are stored in quantised blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class QuantizedTensor:
    """Weights in blocks of the format `type`, as their file stores them.

    `type` is ggml's name (`Q4_K`); `data` (rows, bytes a row) uint8 holds the consecutive blocks of
    each row, `columns` weights in all.
    """

    type: str
    data: torch.Tensor
    columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (outputs) and columns (inputs)."""
        return self.data.shape[0], self.columns

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.data.nbytes

    def rows(self, index: slice | torch.Tensor) -> QuantizedTensor:
        """The rows at `index`; blocks never span two rows."""
        return QuantizedTensor(self.type, self.data[index], self.columns)

    def to(self, device: torch.device) -> QuantizedTensor:
        """The same on another device."""
        return QuantizedTensor(self.type, self.data.to(device), self.columns)
