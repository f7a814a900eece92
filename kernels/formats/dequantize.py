"""Quantised weights as floating point, bit for bit as gguf-py and bitsandbytes have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

from .block_formats import (
    dequantize_q4_0,
    dequantize_q4_1,
    dequantize_q5_0,
    dequantize_q5_1,
    dequantize_q8_0,
    half_precision,
)
from .k_quant_formats import dequantize_q4_k, dequantize_q5_k, dequantize_q6_k
from .nf4 import dequantize_nf4
from .nf4_tensor import NF4Tensor
from .quantized_tensor import QuantizedTensor

# What is unpacked at once: on a CPU it should stay in the cache, elsewhere launches should be few.
_CPU_ELEMENTS = 1 << 18
_DEVICE_ELEMENTS = 1 << 24


class BlockType(NamedTuple):
    """`bytes` bytes hold `elements` weights; `dequantize` makes them float32."""

    elements: int
    bytes: int
    dequantize: Callable[[torch.Tensor], torch.Tensor]


def _single(raw: torch.Tensor) -> torch.Tensor:
    return raw.clone(memory_format=torch.contiguous_format).view(torch.float32)


def _brain(raw: torch.Tensor) -> torch.Tensor:
    return raw.clone(memory_format=torch.contiguous_format).view(torch.bfloat16).float()


BLOCK_TYPES: Mapping[str, BlockType] = MappingProxyType(
    {
        "F32": BlockType(1, 4, _single),
        "F16": BlockType(1, 2, half_precision),
        "BF16": BlockType(1, 2, _brain),
        "Q4_0": BlockType(32, 18, dequantize_q4_0),
        "Q4_1": BlockType(32, 20, dequantize_q4_1),
        "Q5_0": BlockType(32, 22, dequantize_q5_0),
        "Q5_1": BlockType(32, 24, dequantize_q5_1),
        "Q8_0": BlockType(32, 34, dequantize_q8_0),
        "Q4_K": BlockType(256, 144, dequantize_q4_k),
        "Q5_K": BlockType(256, 176, dequantize_q5_k),
        "Q6_K": BlockType(256, 210, dequantize_q6_k),
    }
)


def dequantize(
    weight: QuantizedTensor | NF4Tensor, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """The weights (rows, columns) in `dtype`: their float32 values, rounded once.

    Raises `ValueError` for a type that is not in `BLOCK_TYPES`.
    """
    return dequantize_reference(weight, dtype)


def dequantize_reference(
    weight: QuantizedTensor | NF4Tensor, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """`dequantize` in plain torch."""
    if isinstance(weight, NF4Tensor):
        return dequantize_nf4(weight, dtype)
    kind = _block_type(weight)
    rows, columns = weight.shape
    out = torch.empty(rows, columns, dtype=dtype, device=weight.data.device)
    for part in row_chunks(rows, columns, weight.data.device):
        blocks = weight.data[part].reshape(-1, kind.bytes)
        out[part] = kind.dequantize(blocks).view(-1, columns)
    return out


def row_chunks(rows: int, columns: int, device: torch.device) -> Iterator[slice]:
    """Slices of rows that are worth unpacking at once on this device."""
    elements = _CPU_ELEMENTS if device.type == "cpu" else _DEVICE_ELEMENTS
    step = max(1, elements // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _block_type(weight: QuantizedTensor) -> BlockType:
    kind = BLOCK_TYPES.get(weight.type)
    if kind is None:
        raise ValueError(f"Weights of type {weight.type} cannot be dequantised.")
    if weight.data.shape[1] * kind.elements != weight.columns * kind.bytes:
        raise ValueError(
            f"{weight.columns} weights of type {weight.type} do not take"
            f" {weight.data.shape[1]} bytes."
        )
    return kind
