"""GEMV of quantised weights with up to eight rows of int8 activations: csrc/gemv.cuh."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int
from typing import NamedTuple

import torch

from ..elementwise.q8_activations import GROUP, dequantize_q8, q8_tiles
from ..formats.dequantize import dequantize
from ..formats.nf4_tensor import NF4Tensor
from ..formats.quantized_tensor import QuantizedTensor
from ..formats.repacked_nf4 import RepackedNF4
from ..formats.weight import Repacked, format_of
from ..launch.cuda_driver import Argument, Grid
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .epilogue import add_products, store_products

MOST_COLUMNS = 8
_WARPS = 4
# With fewer warps on an SM, loads do not saturate memory.
_WARPS_WANTED = 16


class GemvVariant(NamedTuple):
    """The weight rows that a warp takes, and the warps that share them."""

    rows: int
    split: int


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
        weight: Repacked,
        tiles: torch.Tensor,
        out: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        variant: GemvVariant | None = None,
        exact: bool = False,
    ) -> torch.Tensor:
        """Write outputs plus `bias` (rows,) float32 to `out` (columns, rows) of any dtype.

        `out` may be a slice of wider rows. `exact` represents a value of NF4 by two bytes instead
        of one. Raises `ValueError` if shapes do not fit.
        """
        epilogue = store_products(out, tiles.shape[1], weight.shape[0], bias)
        self._launch(weight, tiles, epilogue, variant, exact=exact)
        return out

    def multiply_add(
        self,
        weight: Repacked,
        tiles: torch.Tensor,
        residual: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        scale: float = 1.0,
        variant: GemvVariant | None = None,
        exact: bool = False,
    ) -> None:
        """Add `scale` times (outputs + `bias`) to `residual` (columns, rows) float32.

        See `multiply`.
        """
        epilogue = add_products(residual, tiles.shape[1], weight.shape[0], bias, scale)
        self._launch(weight, tiles, epilogue, variant, exact=exact)

    def variant(self, rows: int) -> GemvVariant:
        """Two rows a warp, shared by four warps if there are few rows."""
        return GemvVariant(2, 1 if rows / 2 >= _WARPS_WANTED * self._library.num_sms else 4)

    def _launch(
        self,
        weight: Repacked,
        tiles: torch.Tensor,
        epilogue: Sequence[Argument],
        variant: GemvVariant | None,
        *,
        exact: bool,
    ) -> None:
        rows, inputs = weight.shape
        columns = tiles.shape[1]
        if columns > MOST_COLUMNS or len(tiles) != -(-inputs // 1024):
            raise ValueError(f"{tuple(tiles.shape)} tiles do not fit {inputs} inputs.")
        chosen = variant or self.variant(rows)
        sizes = (c_int(n) for n in (rows, inputs, weight.data.shape[1]))
        arguments: list[Argument] = [pointer(weight.data), pointer(tiles), *sizes, *epilogue]
        name = format_of(weight).kernel
        if isinstance(weight, RepackedNF4):
            name = "nf4_exact" if exact else name
            nested = weight.nested
            arguments += [pointer(each) for each in (nested.values, nested.absmax, nested.offset)]
        kernel = f"{name}_gemv_r{chosen.rows}_c{columns}_s{chosen.split}"
        block = (32 * _WARPS, 1, 1)
        self._library.launch(f"{name}.cuh", kernel, _grid(rows, chosen), block, arguments)


def _grid(rows: int, variant: GemvVariant) -> Grid:
    return -(-rows // (variant.rows * (_WARPS // variant.split))), 1, 1
