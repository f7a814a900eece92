"""The epilogue of a matrix kernel, which stores or adds its outputs: csrc/epilogue.cuh."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_float, c_int

import torch

from ..launch.cuda_driver import Argument
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer

_ADD = 3


def store_products(
    out: torch.Tensor, columns: int, rows: int, bias: torch.Tensor | None
) -> Sequence[Argument]:
    """Store outputs plus `bias` to `out` (columns, rows) of any dtype.

    `out` may be a slice of wider rows; `bias` is (rows,) float32. Raises `ValueError` if shapes do
    not fit.
    """
    _check(out, columns, rows, bias)
    number = ELEMENT_TYPES[out.dtype]
    return pointer(out), pointer(bias), c_float(1), c_int(out.stride(0)), c_int(number)


def add_products(
    residual: torch.Tensor, columns: int, rows: int, bias: torch.Tensor | None, scale: float
) -> Sequence[Argument]:
    """Add `scale` times (outputs + `bias`) to `residual` (columns, rows) float32.

    Raises `ValueError` if shapes do not fit.
    """
    _check(residual, columns, rows, bias)
    if residual.dtype != torch.float32:
        raise ValueError(f"A residual stream is float32, not {residual.dtype}.")
    return pointer(residual), pointer(bias), c_float(scale), c_int(residual.stride(0)), c_int(_ADD)


def _check(out: torch.Tensor, columns: int, rows: int, bias: torch.Tensor | None) -> None:
    if out.shape != (columns, rows) or (rows > 1 and out.stride(1) != 1):
        raise ValueError(
            f"{columns} by {rows} products do not fit {tuple(out.shape)} of strides {out.stride()}."
        )
    if bias is not None and (
        bias.shape != (rows,) or bias.dtype != torch.float32 or not bias.is_contiguous()
    ):
        raise ValueError(f"{tuple(bias.shape)} {bias.dtype} is no bias of {rows} rows.")
