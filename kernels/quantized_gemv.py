"""Products of quantised weights with up to eight vectors, by the kernels of csrc/gemv.cuh."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int, c_void_p
from typing import NamedTuple

import torch

from .dequantize import dequantize
from .launch import Argument, Grid, KernelModule
from .nf4_tensor import NF4Tensor
from .q8_activations import GROUP, dequantize_q8, q8_tiles
from .quantized_tensor import QuantizedTensor
from .repacked_nf4 import RepackedNF4
from .repacked_tensor import RepackedTensor

MOST_COLUMNS = 8
_WARPS = 4
# Fewer warps than this for a processor leave it waiting for memory.
_WARPS_WANTED = 16
_ELEMENT_TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
_SOURCES = {"Q4_K": "q4_k", "Q6_K": "q6_k"}

Repacked = RepackedTensor | RepackedNF4


class GemvVariant(NamedTuple):
    """How many rows a warp takes, and how many warps share them."""

    rows: int
    split: int


def quantized_gemv_reference(
    weight: QuantizedTensor | NF4Tensor, tiles: torch.Tensor
) -> torch.Tensor:
    """`weight` (rows, inputs) times quantised vectors, (columns, rows) float64, summed exactly.

    What a kernel computes but for the rounding of its float32 sums.
    """
    return dequantize_q8(tiles, weight.shape[1]) @ dequantize(weight).double().T


class QuantizedGemv:
    """Quantises vectors and multiplies them, with kernels that `load` gives by source name.

    `processors` is how many streaming multiprocessors there are.
    """

    def __init__(self, load: Callable[[str], KernelModule], processors: int) -> None:
        self._load = load
        self._processors = processors

    def quantize(
        self,
        x: torch.Tensor,
        out: torch.Tensor | None = None,
        *,
        stream: int = 0,
        overlap: bool = False,
    ) -> torch.Tensor:
        """`x` (columns, inputs) contiguous as tiles (tiles, columns, 1536) uint8.

        `overlap` is for `KernelModule.launch`, here and below.
        """
        columns, inputs = x.shape
        if inputs % GROUP or not x.is_contiguous():
            raise ValueError(f"Vectors of {inputs} values cannot be quantised.")
        tiles = q8_tiles(columns, inputs, x.device) if out is None else out
        arguments = (_pointer(x), _pointer(tiles), c_int(inputs), c_int(_ELEMENT_TYPES[x.dtype]))
        grid = (-(-inputs // 512), columns, 1)
        module = self._load("quantize_q8.cuh")
        module.launch("quantize_q8", grid, (128, 1, 1), arguments, stream=stream, overlap=overlap)
        return tiles

    def multiply(
        self,
        weight: Repacked,
        tiles: torch.Tensor,
        out: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        variant: GemvVariant | None = None,
        exact: bool = False,
        stream: int = 0,
        overlap: bool = False,
    ) -> torch.Tensor:
        """`out` (columns, rows) contiguous, its dtype any: the products, plus `bias` float32.

        `exact` takes two bytes rather than one for a value of NF4.
        """
        rows, inputs = weight.shape
        columns = tiles.shape[1]
        if columns > MOST_COLUMNS or len(tiles) != -(-inputs // 1024):
            raise ValueError(f"{tuple(tiles.shape)} tiles do not fit {inputs} inputs.")
        if out.shape != (columns, rows) or not out.is_contiguous():
            raise ValueError(f"{columns} by {rows} products do not fit {tuple(out.shape)}.")
        chosen = variant or self.variant(rows)
        arguments: list[Argument] = [
            _pointer(weight.data),
            _pointer(tiles),
            _pointer(out),
            _pointer(bias),
            *(c_int(n) for n in (rows, inputs, weight.data.shape[1], _ELEMENT_TYPES[out.dtype])),
        ]
        if isinstance(weight, RepackedNF4):
            name = "nf4_exact" if exact else "nf4"
            nested = weight.nested
            arguments += [_pointer(each) for each in (nested.values, nested.absmax, nested.offset)]
        else:
            name = _SOURCES[weight.type]
        module = self._load(f"{name}.cuh")
        kernel = f"{name}_gemv_r{chosen.rows}_c{columns}_s{chosen.split}"
        block = (32 * _WARPS, 1, 1)
        module.launch(kernel, _grid(rows, chosen), block, arguments, stream=stream, overlap=overlap)
        return out

    def variant(self, rows: int) -> GemvVariant:
        """Two rows a warp, and four warps for them where rows are few."""
        return GemvVariant(2, 1 if rows / 2 >= _WARPS_WANTED * self._processors else 4)


def _grid(rows: int, variant: GemvVariant) -> Grid:
    return -(-rows // (variant.rows * (_WARPS // variant.split))), 1, 1


def _pointer(tensor: torch.Tensor | None) -> c_void_p:
    return c_void_p(None if tensor is None else tensor.data_ptr())
