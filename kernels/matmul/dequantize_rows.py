"""Dequantise rows of repacked weights: csrc/dequantize_rows.cuh."""

from __future__ import annotations

from ctypes import c_float, c_int

import torch

from ..formats.repacked_nf4 import RepackedNF4
from ..formats.weight import Repacked, format_of
from ..launch.cuda_driver import Argument, Grid
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary

_SOURCE = "dequantize_rows.cuh"
# Weights of a thread, so many that it loads and stores in 16-byte words.
_WEIGHTS = 16
_MOST_THREADS = 256


class DequantizeRows:
    """The values of `dequantize`: in float32 bit for bit, 16-bit ones rounded once from these."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def gather(
        self,
        weight: Repacked | torch.Tensor,
        row_ids: torch.Tensor,
        *,
        scale: float = 1.0,
        dtype: torch.dtype = torch.float32,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The rows (ids, columns) at `row_ids` (ids,) int64, times `scale` in float32.

        An id outside the matrix gives zeros. `weight` may also be a dense matrix.
        """
        rows, columns = weight.shape
        if row_ids.dtype != torch.int64 or not row_ids.is_contiguous():
            raise ValueError("Rows are named by int64 values that lie together.")
        if out is None:
            out = torch.empty(len(row_ids), columns, dtype=dtype, device=row_ids.device)
        data = weight if isinstance(weight, torch.Tensor) else weight.data
        arguments = _arguments(data, out, (len(row_ids), columns), rows)
        arguments += [pointer(row_ids), c_float(scale)]
        if isinstance(weight, torch.Tensor):
            arguments.append(c_int(ELEMENT_TYPES[weight.dtype]))
            self._launch("gather_rows_dense", len(row_ids), columns, arguments)
        else:
            self._launch_repacked("gather_rows", weight, len(row_ids), arguments)
        return out

    def following(self, weight: Repacked, first: int, out: torch.Tensor) -> torch.Tensor:
        """Write rows of `weight` from `first` on to `out` (rows, columns) of any dtype."""
        rows, columns = weight.shape
        if not 0 <= first <= first + len(out) <= rows:
            raise ValueError(f"There are no {len(out)} rows from {first} on among {rows}.")
        arguments = _arguments(weight.data, out, (len(out), columns), rows)
        arguments.append(c_int(first))
        self._launch_repacked("dequantize_rows", weight, len(out), arguments)
        return out

    def _launch_repacked(
        self,
        operation: str,
        weight: Repacked,
        rows: int,
        arguments: list[Argument],
    ) -> None:
        if isinstance(weight, RepackedNF4):
            nested = weight.nested
            arguments += [pointer(each) for each in (nested.values, nested.absmax, nested.offset)]
        name = format_of(weight).kernel
        self._launch(f"{operation}_{name}", rows, weight.shape[1], arguments)

    def _launch(self, kernel: str, rows: int, columns: int, arguments: list[Argument]) -> None:
        if rows:
            grid, block = _shape(rows, columns)
            self._library.launch(_SOURCE, kernel, grid, block, arguments)


def _arguments(
    data: torch.Tensor, out: torch.Tensor, shape: tuple[int, int], rows: int
) -> list[Argument]:
    if out.shape != shape or not out.is_contiguous() or out.data_ptr() % 16:
        raise ValueError(f"{shape} values do not fit {tuple(out.shape)} as they lie in memory.")
    row_bytes = data.stride(0) * data.element_size()
    if data.stride(1) != 1 or row_bytes % 16 or data.data_ptr() % 16 or shape[1] % _WEIGHTS:
        raise ValueError(f"Rows of {row_bytes} bytes cannot be read in pieces of 16.")
    sizes = (c_int(rows), c_int(shape[1]), c_int(row_bytes))
    return [pointer(data), pointer(out), *sizes, c_int(ELEMENT_TYPES[out.dtype])]


def _shape(rows: int, columns: int) -> tuple[Grid, Grid]:
    """As few blocks for a row as possible, of whole warps with about equal work."""
    wanted = -(-columns // _WEIGHTS)
    blocks = -(-wanted // _MOST_THREADS)
    warps = -(-wanted // (32 * blocks))
    return (rows, -(-wanted // (32 * warps)), 1), (32 * warps, 1, 1)
