"""Fast random weights of any size: valid blocks of random bytes, created on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ingle.kernels.formats.nf4 import dynamic_values
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import (
    FP8Tensor,
    NestedAbsmax,
    NF4Tensor,
    QuantizedTensor,
    RepackedTensor,
)
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS

COMMON_KINDS = ("Q4_K", "Q6_K", "NF4")
KINDS = (*COMMON_KINDS, "Q5_K", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4", "G4_128")
# Where blocks have 16-bit floats, of which random bytes would be infinite, and their size.
_SCALES = {
    "Q4_0": ((0,), 1e-3),
    "Q4_1": ((0, 2), 1e-3),
    "Q5_0": ((0,), 1e-3),
    "Q5_1": ((0, 2), 1e-3),
    "Q8_0": ((0,), 1e-4),
    "Q4_K": ((0, 2), 1e-4),
    "Q5_K": ((0, 2), 1e-4),
    "Q6_K": ((208,), 5e-5),
}


class Shape(NamedTuple):
    """A matrix of Llama-3.1-8B by its purpose."""

    name: str
    rows: int
    inputs: int


SHAPES: Sequence[Shape] = (
    Shape("key or value", 1024, 4096),
    Shape("output of attention", 4096, 4096),
    Shape("query, key, value", 6144, 4096),
    Shape("gate or up", 14336, 4096),
    Shape("gate and up", 28672, 4096),
    Shape("down", 4096, 14336),
    Shape("LM head", 128256, 4096),
)
# Where minutes are few, other kinds than the common ones are measured with these alone.
FEW_SHAPES = ("output of attention", "gate or up")


def kinds_of(shape: Shape) -> Sequence[str]:
    """The quantised ones that are measured with a shape."""
    return KINDS if shape.name in FEW_SHAPES else COMMON_KINDS


def random_weight(
    kind: str, rows: int, inputs: int, device: torch.device, seed: int = 0
) -> QuantizedTensor | NF4Tensor:
    """Return a matrix of `kind` whose values have the magnitude of a model's."""
    generator = torch.Generator(device).manual_seed(seed)
    if kind == "NF4":
        return _random_nf4(rows, inputs, device, generator)
    block = WEIGHT_FORMATS[kind]
    data = _bytes(rows, inputs // block.block_elements * block.block_bytes, device, generator)
    blocks = data.view(-1, block.block_bytes)
    if kind == "MXFP4":  # its scale is an exponent
        blocks[:, 0] = 119
        return QuantizedTensor(kind, data, inputs)
    if block.shared_kernel:  # a float, whose last byte is the code of zero
        scales = torch.randn(len(blocks), 1, device=device, generator=generator) * 1e-3
        blocks[:, -3:] = scales.view(torch.uint8)[:, 1:]
        blocks[:, -4] &= 15
        return QuantizedTensor(kind, data, inputs)
    places, size = _SCALES[kind]
    for place in places:
        scales = torch.randn(len(blocks), 1, device=device, generator=generator) * size
        blocks[:, place : place + 2] = scales.half().view(torch.uint8)
    return QuantizedTensor(kind, data, inputs)


def random_fp8(rows: int, inputs: int, device: torch.device, seed: int = 0) -> FP8Tensor:
    """Return weights with a scale for each row, of the magnitude of a model's."""
    generator = torch.Generator(device).manual_seed(seed)
    values = torch.randn(rows, inputs, device=device, generator=generator)
    scales = torch.rand(rows, 1, device=device, generator=generator) + 0.5
    return FP8Tensor(values.to(torch.float8_e4m3fn), scales * inputs**-0.5)


def repacked(weight: QuantizedTensor | NF4Tensor) -> RepackedTensor:
    """The same for the kernels."""
    return repack(weight)


def _random_nf4(
    rows: int, inputs: int, device: torch.device, generator: torch.Generator
) -> NF4Tensor:
    codes = _bytes(rows, inputs // 2, device, generator)
    absmax = _bytes(rows, inputs // 64, device, generator)
    groups = -(-absmax.numel() // 256)
    largest = torch.rand(groups, device=device, generator=generator) * 0.01 + 0.01
    offset = torch.tensor(0.05, device=device)
    return NF4Tensor(
        codes, absmax, nested=NestedAbsmax(dynamic_values().to(device), largest, offset)
    )


def _bytes(rows: int, count: int, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(
        0, 256, (rows, count), dtype=torch.uint8, device=device, generator=generator
    )
