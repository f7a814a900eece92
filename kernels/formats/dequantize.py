"""Dequantise whole matrices, bit for bit as gguf-py and bitsandbytes do."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .codecs import DEQUANTIZERS
from .fp8 import dequantize_fp8
from .nf4 import dequantize_nf4
from .weight import FP8Tensor, NF4Tensor, QuantizedTensor
from .weight_format import WEIGHT_FORMATS, WeightFormat

# Elements dequantised at once: few enough for the cache of a CPU; on a GPU, so many that launches
# are few.
_CPU_ELEMENTS = 1 << 18
_DEVICE_ELEMENTS = 1 << 24


def dequantize(
    weight: QuantizedTensor | NF4Tensor | FP8Tensor, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """The weights (rows, columns) in `dtype`: their float32 values, rounded once.

    Raises `ValueError` for a format that is not in `DEQUANTIZERS`.
    """
    if isinstance(weight, NF4Tensor):
        return dequantize_nf4(weight, dtype)
    if isinstance(weight, FP8Tensor):
        return dequantize_fp8(weight, dtype)
    form, convert = _format_of(weight), DEQUANTIZERS[weight.type]
    rows, columns = weight.shape
    out = torch.empty(rows, columns, dtype=dtype, device=weight.data.device)
    places = slice(None) if weight.order is None else torch.argsort(weight.order)
    for part in row_chunks(rows, columns, weight.data.device):
        blocks = weight.data[part].reshape(-1, form.block_bytes)
        out[part] = convert(blocks).view(-1, columns)[:, places]
    return out


def row_chunks(rows: int, columns: int, device: torch.device) -> Iterator[slice]:
    """Slices of rows to dequantise at once on this device."""
    elements = _CPU_ELEMENTS if device.type == "cpu" else _DEVICE_ELEMENTS
    step = max(1, elements // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _format_of(weight: QuantizedTensor) -> WeightFormat:
    form = WEIGHT_FORMATS.get(weight.type)
    if form is None or weight.type not in DEQUANTIZERS:
        raise ValueError(f"Weights of type {weight.type} cannot be dequantised.")
    if weight.data.shape[1] * form.block_elements != weight.columns * form.block_bytes:
        raise ValueError(
            f"{weight.columns} weights of type {weight.type} do not take"
            f" {weight.data.shape[1]} bytes."
        )
    return form
