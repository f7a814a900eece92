"""An NF4 matrix in the layout that the kernels read."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .nf4_tensor import NestedAbsmax, NF4Tensor
from .weight_packing import from_tiles, tile_blocks

_BLOCK, _TILE_BLOCKS = 64, 16


@dataclass(frozen=True, eq=False)
class RepackedNF4:
    """The weights of an `NF4Tensor` with blocks of 64 and nested scales, bit for bit.

    `data` (rows, bytes a row) uint8 has codes and quantised scales; docs/kernels.md draws the
    layout.
    """

    data: torch.Tensor
    columns: int
    nested: NestedAbsmax

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (outputs) and columns (inputs)."""
        return self.data.shape[0], self.columns

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.data.nbytes + self.nested.absmax.nbytes


def can_repack_nf4(weight: NF4Tensor) -> bool:
    """Whether the kernels support the tensor's block size and scales."""
    nested, columns = weight.nested, weight.shape[1]
    fits = weight.block_size == _BLOCK and columns % _BLOCK == 0
    return fits and nested is not None and nested.group == 256


def repack_nf4(weight: NF4Tensor) -> RepackedNF4:
    """The weights in the kernels' layout; raises `ValueError` for other blocks or plain scales."""
    if weight.nested is None or not can_repack_nf4(weight):
        raise ValueError("The kernels read NF4 in blocks of 64 whose scales are bytes.")
    rows, columns = weight.shape
    blocks = columns // _BLOCK
    codes = (weight.codes >> 4 | weight.codes << 4).view(rows, blocks, _BLOCK // 2)
    data = tile_blocks((codes, weight.absmax.view(rows, blocks, 1)), _TILE_BLOCKS)
    data = torch.nn.functional.pad(data, (0, -data.shape[1] % 16))
    return RepackedNF4(data, columns, weight.nested)


def unpack_nf4(weight: RepackedNF4) -> NF4Tensor:
    """The weights in bitsandbytes' layout: undoes `repack_nf4`."""
    blocks = weight.columns // _BLOCK
    codes, absmax = from_tiles(weight.data, _TILE_BLOCKS, blocks, (_BLOCK // 2, 1))
    codes = codes.flatten(1)
    return NF4Tensor(codes >> 4 | codes << 4, absmax.flatten(1), _BLOCK, weight.nested)
