"""Repack quantised matrices to the layout that the kernels read."""

from __future__ import annotations

from typing import TypeGuard

import torch

from .codecs import PACKERS, tile_blocks
from .dequantize import row_chunks
from .weight import (
    NF4Tensor,
    PreparedWeight,
    QuantizedTensor,
    RepackedTensor,
    Weight,
    format_name,
)
from .weight_format import WEIGHT_FORMATS

# Bytes; rows begin at the alignment of the widest loads.
_ALIGNMENT = 16
_NF4_BLOCK, _NF4_TILE_BLOCKS, _NF4_SCALE_GROUP = 64, 16, 256


def can_repack(weight: Weight) -> TypeGuard[QuantizedTensor | NF4Tensor]:
    """Whether there are kernels for the format, and for NF4 for its blocks and scales."""
    if isinstance(weight, QuantizedTensor):
        return weight.type in PACKERS
    if not isinstance(weight, NF4Tensor) or weight.nested is None:
        return False
    fits = weight.block_size == _NF4_BLOCK and weight.shape[1] % _NF4_BLOCK == 0
    return fits and weight.nested.group == _NF4_SCALE_GROUP


def reads_dense(weight: PreparedWeight) -> bool:
    """Whether a matrix as prepared multiplies dense values, however few, never int8 tiles."""
    return not isinstance(weight, RepackedTensor) or weight.order is not None


def repack(weight: QuantizedTensor | NF4Tensor) -> RepackedTensor:
    """The weights in the kernels' layout; raises `ValueError` unless `can_repack`.

    Takes little memory beside the weights: rows are repacked in chunks.
    """
    if not can_repack(weight):
        raise ValueError(f"Weights of type {format_name(weight)} have no layout for the kernels.")
    if isinstance(weight, NF4Tensor):
        return _repack_nf4(weight)
    rows, columns = weight.shape
    size = weight.data.shape[1]
    data = weight.data.new_empty(rows, size + -size % _ALIGNMENT)
    data[:, size:] = 0
    form, pack = WEIGHT_FORMATS[weight.type], PACKERS[weight.type]
    count = columns // form.block_elements
    for part in row_chunks(rows, columns, data.device):
        data[part, :size] = pack(weight.data[part].reshape(-1, count, form.block_bytes))
    return RepackedTensor(weight.type, data, columns, order=weight.order)


def _repack_nf4(weight: NF4Tensor) -> RepackedTensor:
    rows, columns = weight.shape
    blocks = columns // _NF4_BLOCK
    codes = (weight.codes >> 4 | weight.codes << 4).view(rows, blocks, _NF4_BLOCK // 2)
    data = tile_blocks((codes, weight.absmax.view(rows, blocks, 1)), _NF4_TILE_BLOCKS)
    data = torch.nn.functional.pad(data, (0, -data.shape[1] % _ALIGNMENT))
    return RepackedTensor("NF4", data, columns, weight.nested)
