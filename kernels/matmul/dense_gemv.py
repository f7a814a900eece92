"""GEMV of 16-bit weights, up to sixteen batch rows: csrc/dense_gemv.cuh, csrc/dense_gated.cuh."""

from __future__ import annotations

from ctypes import c_int
from typing import NamedTuple, TypeGuard

import torch

from ..elementwise.gated_activation import GATES
from ..launch.cuda_driver import Argument
from ..launch.kernel_arguments import DTYPE_NAMES, ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .epilogue import epilogue_arguments
from .linear import GatedLayer

MOST_DENSE_COLUMNS = 16
# With fewer warps on an SM, loads do not saturate memory.
_WARPS_WANTED = 16
_GATED_ROWS, _GATED_WARPS = 8, 4


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
        add: float | None = None,
        variant: DenseVariant | None = None,
    ) -> torch.Tensor:
        """Write `x @ weight.T` plus `bias` (rows,) float32 to `out` (columns, rows) of any dtype.

        If `add` is set, `add` times that is added to `out` float32. `weight` (rows, inputs) and `x`
        (columns, inputs) are contiguous, of one 16-bit dtype, with a multiple of 8 inputs; `out`
        may be a slice of wider rows. Raises `ValueError` otherwise: then torch has to compute it.
        """
        epilogue = epilogue_arguments(out, len(x), len(weight), bias, add)
        obstacle = _obstacle(weight, x)
        if obstacle is not None:
            raise ValueError(obstacle)
        (rows, inputs), columns = weight.shape, len(x)
        chosen = variant or self.variant(rows)
        width = 8 if columns <= 8 else 16
        kernel = f"dense_gemv_{DTYPE_NAMES[x.dtype]}_r{chosen.rows}_c{width}_s{chosen.split}"
        sizes = (c_int(n) for n in (rows, inputs, columns))
        arguments: list[Argument] = [pointer(weight), pointer(x), *sizes, *epilogue]
        grid = (-(-rows // (chosen.rows * chosen.warps // chosen.split)), 1, 1)
        block = (32 * chosen.warps, 1, 1)
        self._library.launch("dense_gemv.cuh", kernel, grid, block, arguments)
        return out

    def variant(self, rows: int) -> DenseVariant:
        """The variant with the fewest warps that still fill all SMs."""
        wanted = _WARPS_WANTED * self._library.num_sms
        enough = (v for v in DENSE_VARIANTS if rows * v.split >= wanted * v.rows)
        return next(enough, DENSE_VARIANTS[-1])


def can_multiply_dense(weight: object, x: torch.Tensor) -> TypeGuard[torch.Tensor]:
    """Whether there is a kernel for these tensors: see `DenseGemv.multiply`."""
    return isinstance(weight, torch.Tensor) and _obstacle(weight, x) is None


def _obstacle(weight: torch.Tensor, x: torch.Tensor) -> str | None:
    if x.dtype not in DTYPE_NAMES or weight.dtype != x.dtype:
        return f"Weights of {weight.dtype} by vectors of {x.dtype} have no kernel."
    if not 1 <= len(x) <= MOST_DENSE_COLUMNS or x.shape[1:] != weight.shape[1:]:
        return f"{tuple(x.shape)} vectors do not fit {tuple(weight.shape)} weights."
    if x.shape[1] % 8 or not (weight.is_contiguous() and x.is_contiguous()):
        return f"Rows of {x.shape[1]} values do not all begin where 16 bytes do."
    if weight.data_ptr() % 16 or x.data_ptr() % 16:
        return "Weights or vectors do not begin where 16 bytes do."
    return None


def launch_dense_gated(
    library: KernelLibrary,
    layer: GatedLayer[torch.Tensor],
    x: torch.Tensor,
    out: torch.Tensor,
    *,
    split: int | None = None,
) -> torch.Tensor:
    """Write `activation(gate(x)) * up(x)` to `out` (columns, rows), contiguous and of any dtype.

    `split` warps, 1 or 4, share rows. Raises `ValueError` if `can_gate_dense` is false or
    shapes do not fit.
    """
    if not can_gate_dense(layer.gate, layer.up, x):
        raise ValueError(f"Matrices {layer.gate.shape} and {layer.up.shape} have no kernel.")
    (rows, inputs), columns = layer.gate.shape, len(x)
    if out.shape != (columns, rows) or not out.is_contiguous():
        raise ValueError(f"{columns} by {rows} results do not fit {tuple(out.shape)}.")
    few = rows < _WARPS_WANTED * _GATED_ROWS * library.num_sms
    chosen = split or (4 if few else 1)
    kernel = f"dense_gated_{DTYPE_NAMES[x.dtype]}_c{8 if columns <= 8 else 16}_s{chosen}"
    tensors = layer.gate, layer.up, x, layer.gate_bias, layer.up_bias, out
    numbers = rows, inputs, columns, ELEMENT_TYPES[out.dtype], GATES[layer.activation]
    arguments = *map(pointer, tensors), *map(c_int, numbers)
    grid = (-(-rows * chosen // (_GATED_ROWS * _GATED_WARPS)), 1, 1)
    library.launch("dense_gated.cuh", kernel, grid, (32 * _GATED_WARPS, 1, 1), arguments)
    return out


def can_gate_dense(gate: torch.Tensor, up: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether there is a kernel for both matrices: see `DenseGemv.multiply`."""
    same = gate.shape == up.shape
    return same and can_multiply_dense(gate, x) and can_multiply_dense(up, x)
