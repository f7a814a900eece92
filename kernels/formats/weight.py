"""Weight matrices: as a model's file stores them, and repacked as the kernels read them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from .weight_format import WEIGHT_FORMATS, WeightFormat


@dataclass(frozen=True, eq=False)
class QuantizedTensor:
    """Weights in blocks of the format `type`, as their file stores them.

    `type` is ggml's name (`Q4_K`); `data` (rows, bytes a row) uint8 holds the consecutive blocks of
    each row, `columns` weights in all. With `order` (columns,) int64, place i of a row has the
    weight of column `order[i]`.
    """

    type: str
    data: torch.Tensor
    columns: int
    order: torch.Tensor | None = None

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
        return replace(self, data=self.data[index])

    def to(self, device: torch.device) -> QuantizedTensor:
        """The same on another device."""
        order = None if self.order is None else self.order.to(device)
        return replace(self, data=self.data.to(device), order=order)


@dataclass(frozen=True, eq=False)
class NestedAbsmax:
    """The second quantisation of NF4 scales, which dequantises their bytes.

    A byte `b` of group `g`, 256 consecutive blocks of the matrix, stands for `values[b] * absmax[g]
    + offset`; `values` (256,), `absmax` (groups,) and `offset` () are float32.
    """

    values: torch.Tensor
    absmax: torch.Tensor
    offset: torch.Tensor
    group: int = 256

    def scales(self, absmax: torch.Tensor) -> torch.Tensor:
        """The scales (any shape) float32 of the bytes `absmax`."""
        values = self.values[absmax.flatten().int()]
        groups = self.absmax.repeat_interleave(self.group)[: len(values)]
        return values.mul_(groups).add_(self.offset).view(absmax.shape)

    def to(self, device: torch.device) -> NestedAbsmax:
        """The same on another device."""
        return NestedAbsmax(
            self.values.to(device), self.absmax.to(device), self.offset.to(device), self.group
        )


@dataclass(frozen=True, eq=False)
class NF4Tensor:
    """Weights as indices of the sixteen NF4 values, times the largest magnitude of their block.

    `codes` (rows, columns / 2) uint8 has the weight of an even column in the high nibble. `absmax`
    (rows, columns / block_size) is float32, or uint8 with a `nested` state.
    """

    codes: torch.Tensor
    absmax: torch.Tensor
    block_size: int = 64
    nested: NestedAbsmax | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (outputs) and columns (inputs)."""
        return self.codes.shape[0], 2 * self.codes.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        size = self.codes.nbytes + self.absmax.nbytes
        if self.nested is not None:
            size += self.nested.values.nbytes + self.nested.absmax.nbytes + 4
        return size

    def scales(self) -> torch.Tensor:
        """The largest magnitude of each block (rows, columns / block_size) float32."""
        return self.absmax if self.nested is None else self.nested.scales(self.absmax)

    def unnested(self) -> NF4Tensor:
        """The same weights with float32 scales, whose rows can be sliced."""
        return NF4Tensor(self.codes, self.scales(), self.block_size)

    def rows(self, index: slice | torch.Tensor) -> NF4Tensor:
        """The rows at `index`, unnested because groups of scales span rows."""
        plain = self if self.nested is None else self.unnested()
        return NF4Tensor(plain.codes[index], plain.absmax[index], plain.block_size)

    def to(self, device: torch.device) -> NF4Tensor:
        """The same on another device."""
        nested = None if self.nested is None else self.nested.to(device)
        return NF4Tensor(self.codes.to(device), self.absmax.to(device), self.block_size, nested)


@dataclass(frozen=True, eq=False)
class RepackedTensor:
    """The weights of a `QuantizedTensor` or `NF4Tensor`, bit for bit, in the kernels' layout.

    `type` is the name of the format. `data` is (rows, bytes a row) uint8, with a multiple of 16
    bytes a row; docs/kernels.md draws the layouts. `nested` belongs to NF4. With `order` (columns,)
    int64, kernels need the inputs in this order.
    """

    type: str
    data: torch.Tensor
    columns: int
    nested: NestedAbsmax | None = None
    order: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (outputs) and columns (inputs)."""
        return self.data.shape[0], self.columns

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.data.nbytes + (0 if self.nested is None else self.nested.absmax.nbytes)

    def rows(self, index: slice) -> RepackedTensor:
        """The rows at `index`; raises `ValueError` for NF4, whose groups of scales span rows."""
        if self.nested is not None:
            raise ValueError("Rows of nested NF4 cannot be sliced.")
        return replace(self, data=self.data[index])

    @property
    def format(self) -> WeightFormat:
        """The format's sizes and kernels."""
        return WEIGHT_FORMATS[self.type]

    @property
    def tables(self) -> tuple[torch.Tensor, ...]:
        """The tensors that kernels of the format read beside `data`."""
        nested = self.nested
        return () if nested is None else (nested.values, nested.absmax, nested.offset)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers that kernels of the format take behind `tables`."""
        return (self.format.block_elements,) if self.format.shared_kernel else ()


Weight = torch.Tensor | QuantizedTensor | NF4Tensor
"""As a model's file stores it."""
PreparedWeight = Weight | RepackedTensor
"""As an `Operations` multiplies by it."""


def plain_weight(weight: PreparedWeight) -> Weight:
    """The weight; raises `TypeError` if it is repacked for the kernels."""
    if isinstance(weight, RepackedTensor):
        raise TypeError("RepackedTensor weights are for the kernels.")
    return weight


def format_name(weight: PreparedWeight) -> str:
    """The name of the format or dtype, such as `Q4_K`, `NF4` or `bfloat16`."""
    if isinstance(weight, torch.Tensor):
        return str(weight.dtype).removeprefix("torch.")
    return "NF4" if isinstance(weight, NF4Tensor) else weight.type
