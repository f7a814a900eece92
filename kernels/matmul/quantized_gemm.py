"""Int8 GEMM of quantised weights with any number of rows, on tensor cores: csrc/gemm.cuh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_int
from types import MappingProxyType
from typing import NamedTuple

import torch

from ..formats.repacked_nf4 import RepackedNF4
from ..formats.weight import Repacked, format_of
from ..launch.cuda_driver import Argument
from ..launch.kernel_arguments import pointer
from ..launch.kernel_library import KernelLibrary
from .epilogue import add_products, store_products
from .gemm_shape import GEMM_SHAPES, ROWS, SLAB

# With fewer slabs, a block spends most of its time in its prologue and epilogue.
_LEAST_SLABS = 4

GEMM_COSTS: Mapping[int, float] = MappingProxyType({8: 337, 16: 460, 32: 691, 64: 1268, 128: 2524})
"""The cost of a slab by the block's batch rows: instructions of a warp, for Q4_K on sm_90."""


class GemmPlan(NamedTuple):
    """The batch rows ("columns") of a block, and the number of blocks that share the work."""

    columns: int
    blocks: int


class QuantizedGemm:
    """Multiplies quantised activations with the kernels of `library`.

    Its workspace for partial sums of blocks that share a tile is allocated once, on `device`; so
    only one stream can use it. `costs` of blocks by their batch rows decide which shape is used.
    """

    def __init__(
        self,
        library: KernelLibrary,
        device: torch.device | None = None,
        *,
        costs: Mapping[int, float] = GEMM_COSTS,
    ) -> None:
        self._library = library
        self._costs = costs
        most = library.num_sms * max(shape.blocks for shape in GEMM_SHAPES.values())
        room = library.num_sms * max(
            shape.blocks * columns for columns, shape in GEMM_SHAPES.items()
        )
        self._arrivals = torch.zeros(most, dtype=torch.int32, device=device)
        self._partials = torch.empty(room * 2 * ROWS, dtype=torch.float32, device=device)

    def multiply(
        self,
        weight: Repacked,
        tiles: torch.Tensor,
        out: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        plan: GemmPlan | None = None,
    ) -> torch.Tensor:
        """Write outputs plus `bias` (rows,) float32 to `out` (columns, rows) of any dtype.

        `tiles` (tiles, columns, 1536) are quantised activations. `out` may be a slice of wider
        rows. Raises `ValueError` if shapes do not fit.
        """
        epilogue = store_products(out, tiles.shape[1], weight.shape[0], bias)
        self._launch(weight, tiles, epilogue, plan)
        return out

    def multiply_add(
        self,
        weight: Repacked,
        tiles: torch.Tensor,
        residual: torch.Tensor,
        bias: torch.Tensor | None = None,
        scale: float = 1.0,
        *,
        plan: GemmPlan | None = None,
    ) -> None:
        """Add `scale` times (outputs + `bias`) to `residual` (columns, rows) float32.

        See `multiply`.
        """
        epilogue = add_products(residual, tiles.shape[1], weight.shape[0], bias, scale)
        self._launch(weight, tiles, epilogue, plan)

    def plan(self, weight: Repacked, columns: int) -> GemmPlan:
        """The cheapest shape for so many batch rows, with enough blocks to fill the GPU."""
        rows, inputs = weight.shape
        wide = min(self._costs, key=lambda each: (-(-columns // each) * self._costs[each], each))
        slabs = -(-rows // ROWS) * -(-columns // wide) * -(-inputs // SLAB)
        blocks = GEMM_SHAPES[wide].resident_blocks(
            format_of(weight).kernel, self._library.architecture
        )
        return GemmPlan(wide, max(1, min(self._library.num_sms * blocks, slabs // _LEAST_SLABS)))

    def _launch(
        self,
        weight: Repacked,
        tiles: torch.Tensor,
        epilogue: Sequence[Argument],
        plan: GemmPlan | None,
    ) -> None:
        rows, inputs = weight.shape
        columns = tiles.shape[1]
        if len(tiles) != -(-inputs // 1024) or not tiles.is_contiguous():
            raise ValueError(f"{tuple(tiles.shape)} tiles do not fit {inputs} inputs.")
        wide, blocks = plan or self.plan(weight, columns)
        shape, source = GEMM_SHAPES[wide], format_of(weight).kernel
        if blocks > len(self._arrivals) or blocks * wide * 2 * ROWS > len(self._partials):
            raise ValueError(f"There is no room for the sums of {blocks} blocks.")
        sizes = (c_int(n) for n in (rows, inputs, weight.data.shape[1], columns))
        memory = (pointer(self._partials), pointer(self._arrivals))
        arguments: list[Argument] = [
            *(pointer(weight.data), pointer(tiles)),
            *(*memory, *sizes, *epilogue),
        ]
        if isinstance(weight, RepackedNF4):
            nested = weight.nested
            arguments += [pointer(each) for each in (nested.values, nested.absmax, nested.offset)]
        self._library.launch(
            f"{source}_gemm.cuh",
            f"{source}_gemm_c{wide}",
            (blocks, 1, 1),
            (shape.threads, 1, 1),
            arguments,
            shared_bytes=shape.shared_bytes(source),
        )
