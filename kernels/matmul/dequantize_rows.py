"""Dequantise rows of repacked weights, alone or for matrix products: csrc/dequantize_rows.cuh."""

from __future__ import annotations

from ctypes import c_float, c_int

import torch

from ..formats.weight import RepackedTensor
from ..launch.cuda_driver import Argument, Grid
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary

_SOURCE = "dequantize_rows.cuh"
# Weights of a thread, so many that it loads and stores in 16-byte words.
_WEIGHTS = 16
_MOST_THREADS = 256
# The most rows of a tensor core tile, so that parts of whole tiles waste no work.
_TENSOR_CORE_ROWS = 256


class DequantizeRows:
    """The values of `dequantize`: in float32 bit for bit, 16-bit ones rounded once from these."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def gather(
        self,
        weight: RepackedTensor | torch.Tensor,
        row_ids: torch.Tensor,
        *,
        scale: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        """The rows (ids, columns) at `row_ids` (ids,) int64, times `scale` in float32.

        An id outside the matrix gives zeros. `weight` may also be a dense matrix.
        """
        rows, columns = weight.shape
        if row_ids.dtype != torch.int64 or not row_ids.is_contiguous():
            raise ValueError("Rows are named by int64 values that lie together.")
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

    def following(self, weight: RepackedTensor, first: int, out: torch.Tensor) -> torch.Tensor:
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
        weight: RepackedTensor,
        rows: int,
        arguments: list[Argument],
    ) -> None:
        arguments += map(pointer, weight.tables)
        arguments += map(c_int, weight.numbers)
        self._launch(f"{operation}_{weight.format.kernel}", rows, weight.columns, arguments)

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


class DequantizedGemm:
    """Linear layers for prefill, for which multiplying takes far longer than dequantising.

    Its workspace of `scratch_bytes` is allocated once on `device`, so only one stream can use it.
    `dtype` is that of activations and outputs, float16 or bfloat16.
    """

    def __init__(
        self,
        library: KernelLibrary,
        dtype: torch.dtype,
        device: torch.device,
        *,
        scratch_bytes: int = 64 << 20,
    ) -> None:
        self._rows = DequantizeRows(library)
        self._scratch = torch.empty(scratch_bytes // dtype.itemsize, dtype=dtype, device=device)

    def __call__(
        self,
        x: torch.Tensor,
        weight: RepackedTensor,
        bias: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """`x` (tokens, inputs) by the transpose of `weight` (outputs, inputs), plus `bias`.

        `out` (tokens, outputs) has x's dtype and may be a slice of wider rows. `bias` (outputs,) is
        float32. Raises `ValueError` if one row exceeds the workspace.
        """
        outputs, inputs = weight.shape
        if out is None:
            out = x.new_empty(len(x), outputs)
        step = self._part(inputs)
        for first in range(0, outputs, step):
            part = slice(first, min(first + step, outputs))
            count = part.stop - part.start
            dense = self._scratch[: count * inputs].view(count, inputs)
            self._rows.following(weight, first, dense)
            torch.mm(x, dense.T, out=out[:, part])
        return out if bias is None else out.add_(bias)

    def _part(self, inputs: int) -> int:
        """The number of rows that fit into the workspace: whole tiles if at least one fits."""
        rows = len(self._scratch) // inputs
        if not rows:
            raise ValueError(f"Scratch memory has no room for a row of {inputs} values.")
        return rows - rows % _TENSOR_CORE_ROWS or rows
