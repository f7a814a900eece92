"""A matrix whose quantised blocks were put into the order in which the kernels read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch

from .dequantize import BLOCK_TYPES, row_chunks
from .quantized_tensor import QuantizedTensor
from .repacked_blocks import (
    pack_block_of_five_bits,
    pack_four_bits,
    pack_q8_0,
    unpack_q4_0,
    unpack_q4_1,
    unpack_q5_0,
    unpack_q5_1,
    unpack_q8_0,
)
from .repacked_k_quants import (
    pack_q4_k,
    pack_q5_k,
    pack_q6_k,
    unpack_q4_k,
    unpack_q5_k,
    unpack_q6_k,
)


@dataclass(frozen=True, eq=False)
class RepackedTensor:
    """The same weights as a `QuantizedTensor` of `type`, bit for bit, in another order.

    `data` (rows, bytes a row) uint8; a row's bytes are a multiple of 16. docs/kernels.md draws
    the layouts.
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


def repack(weight: QuantizedTensor) -> RepackedTensor:
    """The weights for the kernels; raises `ValueError` for a type not in `REPACKED_TYPES`.

    Next to the weights it takes little memory: rows are repacked some at a time.
    """
    pack, _ = _layout(weight.type)
    rows, columns = weight.shape
    size = weight.data.shape[1]
    data = weight.data.new_empty(rows, size + -size % _ALIGNMENT)
    data[:, size:] = 0
    kind = BLOCK_TYPES[weight.type]
    count = columns // kind.elements
    for part in row_chunks(rows, columns, data.device):
        data[part, :size] = pack(weight.data[part].reshape(-1, count, kind.bytes))
    return RepackedTensor(weight.type, data, columns)


def unpack(weight: RepackedTensor) -> QuantizedTensor:
    """The weights as their file has them: undoes `repack`."""
    _, undo = _layout(weight.type)
    rows, columns = weight.shape
    kind = BLOCK_TYPES[weight.type]
    count = columns // kind.elements
    data = weight.data.new_empty(rows, count * kind.bytes)
    for part in row_chunks(rows, columns, data.device):
        data[part] = undo(weight.data[part], count).flatten(1)
    return QuantizedTensor(weight.type, data, columns)


class _Layout(NamedTuple):
    pack: Callable[[torch.Tensor], torch.Tensor]
    unpack: Callable[[torch.Tensor, int], torch.Tensor]


# Rows begin where the widest loads can begin.
_ALIGNMENT = 16
_LAYOUTS: Mapping[str, _Layout] = MappingProxyType(
    {
        "Q4_0": _Layout(pack_four_bits, unpack_q4_0),
        "Q4_1": _Layout(pack_four_bits, unpack_q4_1),
        "Q5_0": _Layout(pack_block_of_five_bits, unpack_q5_0),
        "Q5_1": _Layout(pack_block_of_five_bits, unpack_q5_1),
        "Q8_0": _Layout(pack_q8_0, unpack_q8_0),
        "Q4_K": _Layout(pack_q4_k, unpack_q4_k),
        "Q5_K": _Layout(pack_q5_k, unpack_q5_k),
        "Q6_K": _Layout(pack_q6_k, unpack_q6_k),
    }
)
REPACKED_TYPES = frozenset(_LAYOUTS)


def _layout(kind: str) -> _Layout:
    layout = _LAYOUTS.get(kind)
    if layout is None:
        raise ValueError(f"Weights of type {kind} have no layout for the kernels.")
    return layout
