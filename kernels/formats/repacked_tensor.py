"""A quantised matrix in the layout that the kernels read."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .codecs import CODECS, Repacking
from .dequantize import row_chunks
from .quantized_tensor import QuantizedTensor
from .weight_format import GGML_FORMATS

REPACKED_TYPES = frozenset(form.name for form in GGML_FORMATS.values() if form.has_kernels)
"""The GGUF formats that the kernels read."""
# Bytes; rows begin at the alignment of the widest loads.
_ALIGNMENT = 16


@dataclass(frozen=True, eq=False)
class RepackedTensor:
    """The weights of a `QuantizedTensor` of `type`, bit for bit, in another layout.

    `data` is (rows, bytes a row) uint8, with a multiple of 16 bytes a row; docs/kernels.md draws
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
    """The weights in the kernels' layout; raises `ValueError` if not in `REPACKED_TYPES`.

    Takes little memory beside the weights: rows are repacked in chunks.
    """
    repacking = _repacking(weight.type)
    rows, columns = weight.shape
    size = weight.data.shape[1]
    data = weight.data.new_empty(rows, size + -size % _ALIGNMENT)
    data[:, size:] = 0
    form = GGML_FORMATS[weight.type]
    count = columns // form.block_elements
    for part in row_chunks(rows, columns, data.device):
        data[part, :size] = repacking.pack(weight.data[part].reshape(-1, count, form.block_bytes))
    return RepackedTensor(weight.type, data, columns)


def unpack(weight: RepackedTensor) -> QuantizedTensor:
    """The weights as their file stores them: undoes `repack`."""
    repacking = _repacking(weight.type)
    rows, columns = weight.shape
    form = GGML_FORMATS[weight.type]
    count = columns // form.block_elements
    data = weight.data.new_empty(rows, count * form.block_bytes)
    for part in row_chunks(rows, columns, data.device):
        data[part] = repacking.unpack(weight.data[part], count).flatten(1)
    return QuantizedTensor(weight.type, data, columns)


def _repacking(kind: str) -> Repacking:
    codec = CODECS.get(kind)
    if codec is None or codec.repacking is None:
        raise ValueError(f"Weights of type {kind} have no layout for the kernels.")
    return codec.repacking
