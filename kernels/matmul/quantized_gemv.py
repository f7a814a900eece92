"""GEMV of quantised weights with up to eight rows of int8 activations: csrc/gemv.cuh."""

from __future__ import annotations

from ctypes import c_int
from typing import NamedTuple

import torch

from ..elementwise.activations import GROUP, dequantize_q8, q8_tiles
from ..formats.dequantize import dequantize
from ..formats.weight import NF4Tensor, QuantizedTensor, RepackedTensor
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .epilogue import epilogue_arguments

MOST_COLUMNS = 8
_WARPS = 4
# With fewer warps on an SM, loads do not saturate memory.
_WARPS_WANTED = 16


class GemvVariant(NamedTuple):
    """The weight rows that a warp takes, and the warps that share them."""

    rows: int
    split: int

    @property
    def block_rows(self) -> int:
        """Weight rows of a block."""
        return self.rows * (_WARPS // self.split)


def quantized_gemv_reference(
    weight: QuantizedTensor | NF4Tensor, tiles: torch.Tensor
) -> torch.Tensor:
    """`weight` (rows, inputs) times quantised activations, (columns, rows) float64, summed exactly.

    A kernel differs from it only by the rounding of its float32 sums.
    """
    return dequantize_q8(tiles, weight.shape[1]) @ dequantize(weight).double().T


class QuantizedGemv:
    """Quantises activations and multiplies them, with the kernels of `library`."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def quantize(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """`x` (columns, inputs) contiguous as tiles (tiles, columns, 1536) uint8."""
        columns, inputs = x.shape
        if inputs % GROUP or not x.is_contiguous():
            raise ValueError(f"Vectors of {inputs} values cannot be quantised.")
        tiles = q8_tiles(columns, inputs, x.device) if out is None else out
        arguments = (pointer(x), pointer(tiles), c_int(inputs), c_int(ELEMENT_TYPES[x.dtype]))
        grid = (columns, -(-inputs // 512), 1)
        self._library.launch("quantize_q8.cuh", "quantize_q8", grid, (128, 1, 1), arguments)
        return tiles

    def multiply(
        self,
        weight: RepackedTensor,
        tiles: torch.Tensor,
        out: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        add: float | None = None,
        variant: GemvVariant | None = None,
        exact: bool = False,
    ) -> torch.Tensor:
        """Write outputs plus `bias` (rows,) float32 to `out` (columns, rows) of any dtype.

        If `add` is set, `add` times that is added to `out` float32. `out` may be a slice of wider
        rows. `exact` represents a value of NF4 by two bytes instead of one. Raises `ValueError` if
        shapes do not fit.
        """
        (rows, inputs), columns = weight.shape, tiles.shape[1]
        epilogue = epilogue_arguments(out, columns, rows, bias, add)
        check_tiles(tiles, inputs)
        chosen = variant or self.variant(rows)
        name = "nf4_exact" if exact and weight.nested is not None else weight.format.kernel
        arguments = [
            *map(pointer, (weight.data, tiles)),
            *map(c_int, (rows, inputs, weight.data.shape[1])),
            *epilogue,
            *map(pointer, weight.tables),
            *map(c_int, weight.numbers),
        ]
        kernel = f"{name}_gemv_r{chosen.rows}_c{columns}_s{chosen.split}"
        grid = (-(-rows // chosen.block_rows), 1, 1)
        self._library.launch(f"{name}.cuh", kernel, grid, (32 * _WARPS, 1, 1), arguments)
        return out

    def multiply_pair(
        self,
        first: RepackedTensor,
        second: RepackedTensor,
        tiles: torch.Tensor,
        out: torch.Tensor,
        *,
        biases: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None),
        variant: GemvVariant | None = None,
    ) -> torch.Tensor:
        """Multiply by two matrices of different formats in one launch: csrc/paired_gemv.cuh.

        Writes outputs plus biases (rows,) float32 to `out` (columns, rows of both) of any dtype.
        Raises `ValueError` if shapes do not fit, or without a common kernel: see `can_pair`.
        """
        (rows, inputs), columns = first.shape, tiles.shape[1]
        second_rows = second.shape[0]
        check_tiles(tiles, inputs)
        if not can_pair(first, second) or second.columns != inputs:
            raise ValueError(f"{first.type} {first.shape} and {second.type} have no common kernel.")
        if out.shape[1] != rows + second_rows:
            raise ValueError(f"{rows} and {second_rows} rows do not fit {tuple(out.shape)}.")
        ends = out[:, :rows], out[:, rows:]
        epilogue = epilogue_arguments(ends[0], columns, rows, biases[0], None)
        epilogue_arguments(ends[1], columns, second_rows, biases[1], None)
        chosen = variant or self.variant(rows + second_rows)
        blocks = -(-rows // chosen.block_rows), -(-second_rows // chosen.block_rows)
        strides = first.data.shape[1], second.data.shape[1]
        arguments = (
            *map(pointer, (first.data, second.data, tiles)),
            *map(c_int, (rows, second_rows, inputs, *strides, blocks[0])),
            *(*epilogue, pointer(ends[1]), pointer(biases[1])),
        )
        source = f"{first.format.kernel}_{second.format.kernel}"
        kernel = f"{source}_gemv_r{chosen.rows}_c{columns}_s{chosen.split}"
        block = (32 * _WARPS, 1, 1)
        self._library.launch(f"{source}.cuh", kernel, (sum(blocks), 1, 1), block, arguments)
        return out

    def variant(self, rows: int) -> GemvVariant:
        """Two rows a warp, shared by four warps if there are few rows."""
        return GemvVariant(2, 1 if rows / 2 >= _WARPS_WANTED * self._library.num_sms else 4)


def check_tiles(tiles: torch.Tensor, inputs: int) -> None:
    """Raise `ValueError` unless they are quantised activations of at most eight batch rows."""
    if tiles.shape[1] > MOST_COLUMNS or len(tiles) != -(-inputs // 1024):
        raise ValueError(f"{tuple(tiles.shape)} tiles do not fit {inputs} inputs.")


def can_pair(first: RepackedTensor, second: RepackedTensor) -> bool:
    """Whether one kernel multiplies by both."""
    return second.type in first.format.paired_with
