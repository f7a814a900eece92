"""Products of quantised weights with any number of vectors, by the kernels of csrc/gemm.cuh."""

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

# A block that has fewer slabs than this spends its time with beginning and ending.
_LEAST_SLABS = 4

GEMM_COSTS: Mapping[int, float] = MappingProxyType({8: 337, 16: 460, 32: 691, 64: 1268, 128: 2524})
"""What a slab of a block takes by its columns: instructions of a warp, for Q4_K on sm_90."""


class GemmPlan(NamedTuple):
    """How many columns a block has, and how many blocks share the work."""

    columns: int
    blocks: int


class QuantizedGemm:
    """Multiplies quantised vectors with the kernels of `library`.

    Its memory for sums of blocks that share a tile is taken once, on `device`; so only one stream
    can use it. `costs` of blocks by their columns decide which are taken.
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
        most = library.processors * max(shape.blocks for shape in GEMM_SHAPES.values())
        room = library.processors * max(
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
        """`out` (columns, rows) of any dtype becomes the products, plus `bias` (rows,) float32.

        `tiles` (tiles, columns, 1536) are quantised vectors. `out` may be a part of the rows of a
        wider tensor. Raises `ValueError` where shapes do not fit.
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
        """Add `scale` times (products + `bias`) to `residual` (columns, rows) float32.

        See `multiply`.
        """
        epilogue = add_products(residual, tiles.shape[1], weight.shape[0], bias, scale)
        self._launch(weight, tiles, epilogue, plan)

    def plan(self, weight: Repacked, columns: int) -> GemmPlan:
        """The cheapest blocks for so many columns, and enough of them to occupy the GPU."""
        rows, inputs = weight.shape
        wide = min(self._costs, key=lambda each: (-(-columns // each) * self._costs[each], each))
        slabs = -(-rows // ROWS) * -(-columns // wide) * -(-inputs // SLAB)
        blocks = GEMM_SHAPES[wide].resident_blocks(
            format_of(weight).kernel, self._library.architecture
        )
        return GemmPlan(wide, max(1, min(self._library.processors * blocks, slabs // _LEAST_SLABS)))

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
