"""GEMV of 16-bit weights with up to sixteen rows of activations: csrc/dense_gemv.cuh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_int
from types import MappingProxyType
from typing import NamedTuple, TypeGuard

import torch

from ..launch.cuda_driver import Argument
from ..launch.kernel_arguments import pointer
from ..launch.kernel_library import KernelLibrary
from .epilogue import add_products, store_products

MOST_DENSE_COLUMNS = 16
# With fewer warps on an SM, loads do not saturate memory.
_WARPS_WANTED = 16
DENSE_NAMES: Mapping[torch.dtype, str] = MappingProxyType(
    {torch.float16: "f16", torch.bfloat16: "bf16"}
)


class DenseVariant(NamedTuple):
    """The weight rows that a warp takes, 8 or 16, and the warps that share them."""

    rows: int
    split: int

    @property
    def warps(self) -> int:
        """In a block."""
        return max(4, self.split)


# From fewest warps to most.
DENSE_VARIANTS = tuple(DenseVariant(*each) for each in ((16, 1), (16, 4), (8, 4), (8, 8)))


class DenseGemv:
    """Multiplies with the kernels of `library`, accumulating in float32."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def multiply(
        self,
        weight: torch.Tensor,
        x: torch.Tensor,
        out: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        variant: DenseVariant | None = None,
    ) -> torch.Tensor:
        """Write `x @ weight.T` plus `bias` (rows,) float32 to `out` (columns, rows) of any dtype.

        `weight` (rows, inputs) and `x` (columns, inputs) are contiguous, of one 16-bit dtype, with
        a multiple of 8 inputs; `out` may be a slice of wider rows. Raises `ValueError` otherwise:
        then torch has to compute it.
        """
        epilogue = store_products(out, len(x), len(weight), bias)
        self._launch(weight, x, epilogue, variant)
        return out

    def multiply_add(
        self,
        weight: torch.Tensor,
        x: torch.Tensor,
        residual: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        scale: float = 1.0,
        variant: DenseVariant | None = None,
    ) -> None:
        """Add `scale` times (products + `bias`) to `residual` (columns, rows) float32.

        See `multiply`.
        """
        epilogue = add_products(residual, len(x), len(weight), bias, scale)
        self._launch(weight, x, epilogue, variant)

    def variant(self, rows: int) -> DenseVariant:
        """The variant with the fewest warps that still fill all SMs."""
        wanted = _WARPS_WANTED * self._library.num_sms
        enough = (v for v in DENSE_VARIANTS if rows * v.split >= wanted * v.rows)
        return next(enough, DENSE_VARIANTS[-1])

    def _launch(
        self,
        weight: torch.Tensor,
        x: torch.Tensor,
        epilogue: Sequence[Argument],
        variant: DenseVariant | None,
    ) -> None:
        obstacle = _obstacle(weight, x)
        if obstacle is not None:
            raise ValueError(obstacle)
        (rows, inputs), columns = weight.shape, len(x)
        chosen = variant or self.variant(rows)
        width = 8 if columns <= 8 else 16
        kernel = f"dense_gemv_{DENSE_NAMES[x.dtype]}_r{chosen.rows}_c{width}_s{chosen.split}"
        sizes = (c_int(n) for n in (rows, inputs, columns))
        arguments: list[Argument] = [pointer(weight), pointer(x), *sizes, *epilogue]
        grid = (-(-rows // (chosen.rows * chosen.warps // chosen.split)), 1, 1)
        block = (32 * chosen.warps, 1, 1)
        self._library.launch("dense_gemv.cuh", kernel, grid, block, arguments)


def can_multiply_dense(weight: object, x: torch.Tensor) -> TypeGuard[torch.Tensor]:
    """Whether there is a kernel for these tensors: see `DenseGemv.multiply`."""
    return isinstance(weight, torch.Tensor) and _obstacle(weight, x) is None


def _obstacle(weight: torch.Tensor, x: torch.Tensor) -> str | None:
    if x.dtype not in DENSE_NAMES or weight.dtype != x.dtype:
        return f"Weights of {weight.dtype} by vectors of {x.dtype} have no kernel."
    if not 1 <= len(x) <= MOST_DENSE_COLUMNS or x.shape[1:] != weight.shape[1:]:
        return f"{tuple(x.shape)} vectors do not fit {tuple(weight.shape)} weights."
    if x.shape[1] % 8 or not (weight.is_contiguous() and x.is_contiguous()):
        return f"Rows of {x.shape[1]} values do not all begin where 16 bytes do."
    if weight.data_ptr() % 16 or x.data_ptr() % 16:
        return "Weights or vectors do not begin where 16 bytes do."
    return None
