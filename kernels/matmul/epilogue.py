"""The epilogue of a matrix kernel, which stores or adds its outputs: csrc/epilogue.cuh."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_float, c_int

import torch

from ..launch.cuda_driver import Argument
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer

_ADD = 3


def epilogue_arguments(
    out: torch.Tensor, columns: int, rows: int, bias: torch.Tensor | None, add: float | None
) -> Sequence[Argument]:
    """Store outputs plus `bias` to `out` (columns, rows) of any dtype.

    If `add` is set, `add` times that is added to `out` instead, which is float32 then. `out` may be
    a slice of wider rows; `bias` is (rows,) float32. Raises `ValueError` if shapes do not fit.
    """
    if out.shape != (columns, rows) or (rows > 1 and out.stride(1) != 1):
        raise ValueError(
            f"{columns} by {rows} products do not fit {tuple(out.shape)} of strides {out.stride()}."
        )
    if bias is not None and (
        bias.shape != (rows,) or bias.dtype != torch.float32 or not bias.is_contiguous()
    ):
        raise ValueError(f"{tuple(bias.shape)} {bias.dtype} is no bias of {rows} rows.")
    if add is not None and out.dtype != torch.float32:
        raise ValueError(f"A residual stream is float32, not {out.dtype}.")
    number = ELEMENT_TYPES[out.dtype] if add is None else _ADD
    scale = c_float(1.0 if add is None else add)
    return pointer(out), pointer(bias), scale, c_int(out.stride(0)), c_int(number)
