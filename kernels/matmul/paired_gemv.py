"""Two matrices of different formats with the same inputs in one launch: csrc/paired_gemv.cuh."""

from __future__ import annotations

from ctypes import c_int

import torch

from ..formats.weight import Repacked, format_of
from ..launch.kernel_arguments import pointer
from ..launch.kernel_library import KernelLibrary
from .epilogue import store_products
from .quantized_gemv import MOST_COLUMNS, GemvVariant, QuantizedGemv

_WARPS = 4
_NO_BIASES = (None, None)


class PairedGemv:
    """Multiplies up to eight rows by two matrices, with the kernels of `library`."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library
        self._products = QuantizedGemv(library)

    def multiply(
        self,
        first: Repacked,
        second: Repacked,
        tiles: torch.Tensor,
        out: torch.Tensor,
        *,
        biases: tuple[torch.Tensor | None, torch.Tensor | None] = _NO_BIASES,
        variant: GemvVariant | None = None,
    ) -> torch.Tensor:
        """Write outputs plus biases (rows,) float32 to `out` (columns, rows of both) of any dtype.

        Formats without a common kernel take two launches. See `QuantizedGemv.multiply`.
        """
        (rows, inputs), columns = first.shape, tiles.shape[1]
        second_rows = second.shape[0]
        if second.shape[1] != inputs or columns > MOST_COLUMNS or len(tiles) != -(-inputs // 1024):
            raise ValueError(f"{tuple(tiles.shape)} tiles do not fit {inputs} inputs of both.")
        if out.shape[1] != rows + second_rows:
            raise ValueError(f"{rows} and {second_rows} rows do not fit {tuple(out.shape)}.")
        ends = out[:, :rows], out[:, rows:]
        source = source_of(first, second)
        if source is None:
            for weight, end, bias in zip((first, second), ends, biases, strict=True):
                self._products.multiply(weight, tiles, end, bias=bias, variant=variant)
            return out
        epilogue = store_products(ends[0], columns, rows, biases[0])
        store_products(ends[1], columns, second_rows, biases[1])
        chosen = variant or self._products.variant(rows + second_rows)
        each = chosen.rows * (_WARPS // chosen.split)
        blocks = -(-rows // each), -(-second_rows // each)
        strides = first.data.shape[1], second.data.shape[1]
        numbers = rows, second_rows, inputs, *strides, blocks[0]
        arguments = (
            *map(pointer, (first.data, second.data, tiles)),
            *(*map(c_int, numbers), *epilogue, pointer(ends[1]), pointer(biases[1])),
        )
        kernel = f"{source}_gemv_r{chosen.rows}_c{columns}_s{chosen.split}"
        block = (32 * _WARPS, 1, 1)
        self._library.launch(f"{source}.cuh", kernel, (sum(blocks), 1, 1), block, arguments)
        return out


def source_of(first: Repacked, second: Repacked) -> str | None:
    """The kernel that multiplies by both, or None."""
    one, other = format_of(first), format_of(second)
    return f"{one.kernel}_{other.kernel}" if other.name in one.paired_with else None
