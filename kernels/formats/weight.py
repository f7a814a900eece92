"""Weight matrices: as a model's file stores them, and repacked as the kernels read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

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
class FP8Tensor:
    """Weights in FP8 that are to be multiplied by inputs in FP8.

    `codes` (rows, columns) float8_e4m3fn are times `scales` float32: of the matrix (), of its rows
    (rows, 1), or of blocks of 128 by 128 (blocks down, blocks across). Inputs are rounded with
    `input_scale` () float32; if it is None, with a scale of each token, for blocks of each 128
    inputs of it.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    input_scale: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (outputs) and columns (inputs)."""
        return self.codes.shape[0], self.codes.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.codes.nbytes + self.scales.nbytes

    @property
    def scaling(self) -> FP8Scaling:
        """What has a scale."""
        if self.scales.ndim == 0:
            return "tensor"
        return "row" if self.scales.shape == (len(self.codes), 1) else "block"

    def cuts_blocks(self, index: slice | torch.Tensor) -> bool:
        """Whether the rows at `index` are other than whole blocks, if blocks have the scales."""
        if self.scaling != "block":
            return False
        if not isinstance(index, slice):
            return True
        start, stop, step = index.indices(len(self.codes))
        whole = stop % FP8_BLOCK == 0 or stop == len(self.codes)
        return step != 1 or start % FP8_BLOCK > 0 or not whole

    def rows(self, index: slice | torch.Tensor) -> FP8Tensor:
        """The rows at `index`; raises `ValueError` where that `cuts_blocks`."""
        if self.cuts_blocks(index):
            raise ValueError("Rows of blocks in FP8 cannot be separated.")
        scales = self.scales
        if self.scaling == "row":
            scales = scales[index]
        elif isinstance(index, slice) and self.scaling == "block":
            start, stop, _ = index.indices(len(self.codes))
            scales = scales[start // FP8_BLOCK : -(-stop // FP8_BLOCK)]
        return replace(self, codes=self.codes[index], scales=scales)

    def to(self, device: torch.device) -> FP8Tensor:
        """The same on another device."""
        scale = None if self.input_scale is None else self.input_scale.to(device)
        return FP8Tensor(self.codes.to(device), self.scales.to(device), scale)


FP8Scaling = Literal["tensor", "row", "block"]
FP8_BLOCK = 128


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


Weight = torch.Tensor | QuantizedTensor | NF4Tensor | FP8Tensor
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
    if isinstance(weight, FP8Tensor):
        return f"FP8 ({weight.scaling}{', static' if weight.input_scale is not None else ''})"
    return "NF4" if isinstance(weight, NF4Tensor) else weight.type
