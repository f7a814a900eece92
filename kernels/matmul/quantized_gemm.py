"""Int8 GEMM of quantised weights with any number of rows, on tensor cores: csrc/gemm.cuh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_int
from typing import NamedTuple

import torch

from ..formats.weight import RepackedTensor
from ..formats.weight_format import WEIGHT_FORMATS
from ..launch.cuda_driver import Argument
from ..launch.kernel_arguments import pointer
from ..launch.kernel_library import KernelLibrary
from .epilogue import epilogue_arguments

ROWS = 128
"""Matrix rows of a block."""
SLAB = 128
"""Inputs that a block multiplies at a time."""
_GROUPS, _SCALE_BYTES = 4, 48
_ROW_BYTES: Mapping[str, int] = {
    form.kernel: form.gemm_row_bytes for form in WEIGHT_FORMATS.values() if form.has_kernels
}
# Shared memory of an SM for all its blocks, each of which takes 1 KB more than it requests.
_SHARED_BYTES: Mapping[str, int] = {"sm_90": 228 << 10}
_SHARED_BYTES_ELSEWHERE, _SHARED_BYTES_OF_A_BLOCK = 100 << 10, 1 << 10


class GemmShape(NamedTuple):
    """The batch rows ("columns") of a block: so many warps, each with so many tiles of eight.

    `stages` slabs fit into shared memory; `blocks` fit into an SM's registers.
    """

    column_tiles: int
    column_warps: int
    stages: int
    blocks: int

    @property
    def columns(self) -> int:
        """Batch rows of a block."""
        return 8 * self.column_tiles * self.column_warps

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * self.column_warps

    @property
    def few_stages(self) -> GemmShape:
        """The same with two stages, of which more blocks fit into an SM."""
        return self._replace(stages=2)

    def shared_bytes(self, source: str) -> int:
        """Dynamic shared memory of a block, in bytes, for weights of the kernel `source`."""
        values, facts = 2 * (16 * self.columns + 64) + 16, 8 * self.columns + 32
        stage = ROWS * _ROW_BYTES[source] + _GROUPS * (values + facts)
        return self.stages * stage + self.threads * _SCALE_BYTES

    def resident_blocks(self, source: str, architecture: str) -> int:
        """The blocks that an SM runs at a time."""
        shared = _SHARED_BYTES.get(architecture, _SHARED_BYTES_ELSEWHERE)
        return min(self.blocks, shared // (self.shared_bytes(source) + _SHARED_BYTES_OF_A_BLOCK))


GEMM_SHAPES: Mapping[int, GemmShape] = {
    shape.columns: shape
    for shape in (
        GemmShape(1, 1, 4, 4),
        GemmShape(2, 1, 4, 3),
        GemmShape(4, 1, 3, 2),
        GemmShape(8, 1, 2, 2),
        GemmShape(8, 2, 2, 1),
    )
}
"""The shapes by batch rows, as csrc/gemm.cuh compiles them."""

_WITH_TWO_STAGES = frozenset(("q4_k", "q6_k"))
"""The kernels that are also compiled with two stages, for up to 32 batch rows."""
_MOST_WITH_TWO_STAGES = 32

# With fewer slabs, a block spends most of its time in its prologue and epilogue.
_LEAST_SLABS = 4

GEMM_COSTS: Mapping[int, float] = {8: 337, 16: 460, 32: 691, 64: 1268, 128: 2524}
"""The cost of a slab by the block's batch rows: instructions of a warp, for Q4_K on sm_90."""


class GemmPlan(NamedTuple):
    """The batch rows ("columns") of a block, and the number of blocks that share the work.

    With `few_stages` two slabs of a block are in shared memory at a time.
    """

    columns: int
    blocks: int
    few_stages: bool = False


class QuantizedGemm:
    """Multiplies quantised activations with the kernels of `library`.

    Its workspace for partial sums of blocks that share a tile is allocated once, on `device`; so
    only one stream can use it. `costs` of blocks by their batch rows decide which shape is used,
    and with `few_stages` a single block that an SM has room for makes way for those of two stages.
    """

    def __init__(
        self,
        library: KernelLibrary,
        device: torch.device | None = None,
        *,
        costs: Mapping[int, float] = GEMM_COSTS,
        few_stages: bool = True,
    ) -> None:
        self._library = library
        self._few_stages = few_stages
        self._costs = costs
        most = library.num_sms * max(shape.blocks for shape in GEMM_SHAPES.values())
        room = library.num_sms * max(
            shape.blocks * columns for columns, shape in GEMM_SHAPES.items()
        )
        self._arrivals = torch.zeros(most, dtype=torch.int32, device=device)
        self._partials = torch.empty(room * 2 * ROWS, dtype=torch.float32, device=device)

    def multiply(
        self,
        weight: RepackedTensor,
        tiles: torch.Tensor,
        out: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        add: float | None = None,
        plan: GemmPlan | None = None,
    ) -> torch.Tensor:
        """Write outputs plus `bias` (rows,) float32 to `out` (columns, rows) of any dtype.

        If `add` is set, `add` times that is added to `out` float32. `tiles` (tiles, columns, 1536)
        are quantised activations. `out` may be a slice of wider rows. Raises `ValueError` if shapes
        do not fit.
        """
        (rows, inputs), columns = weight.shape, tiles.shape[1]
        epilogue = epilogue_arguments(out, columns, rows, bias, add)
        if len(tiles) != -(-inputs // 1024) or not tiles.is_contiguous():
            raise ValueError(f"{tuple(tiles.shape)} tiles do not fit {inputs} inputs.")
        plan = plan or self.plan(weight, columns)
        kernel = f"{weight.format.kernel}_gemm"
        self.launch(
            kernel,
            kernel,
            weight,
            rows,
            tiles,
            plan,
            [*epilogue, *map(pointer, weight.tables), *map(c_int, weight.numbers)],
        )
        return out

    def launch(
        self,
        source: str,
        kernel: str,
        weight: RepackedTensor,
        rows: int,
        tiles: torch.Tensor,
        plan: GemmPlan,
        arguments: Sequence[Argument],
    ) -> None:
        """Launch a kernel of a source for matrices of so many rows, one or more in `weight`.

        `arguments` follow those that all of them have. Raises `ValueError` if there is no room for
        the sums of so many blocks.
        """
        wide, blocks, few_stages = plan
        shape, columns = GEMM_SHAPES[wide], tiles.shape[1]
        if few_stages:
            shape, kernel = shape.few_stages, f"{kernel}_two"
        if blocks > len(self._arrivals) or blocks * wide * 2 * ROWS > len(self._partials):
            raise ValueError(f"There is no room for the sums of {blocks} blocks.")
        self._library.launch(
            f"{source}.cuh",
            f"{kernel}_c{wide}",
            (blocks, 1, 1),
            (shape.threads, 1, 1),
            [
                *map(pointer, (weight.data, tiles, self._partials, self._arrivals)),
                *map(c_int, (rows, weight.shape[1], weight.data.shape[1], columns)),
                *arguments,
            ],
            shared_bytes=shape.shared_bytes(weight.format.kernel),
        )

    def plan(self, weight: RepackedTensor, columns: int) -> GemmPlan:
        """The cheapest shape for so many batch rows, with enough blocks to fill the GPU."""
        wide = min(self._costs, key=lambda each: (-(-columns // each) * self._costs[each], each))
        usual = self.plan_blocks(weight, weight.shape[0], columns, wide)
        if not self._few_stages or not can_have_few_stages(weight, wide):
            return usual
        shape, architecture = GEMM_SHAPES[wide], self._library.architecture
        if shape.resident_blocks(weight.format.kernel, architecture) > 1:
            return usual
        return self.plan_blocks(weight, weight.shape[0], columns, wide, few_stages=True)

    def plan_blocks(
        self,
        weight: RepackedTensor,
        rows: int,
        columns: int,
        wide: int,
        *,
        few_stages: bool = False,
    ) -> GemmPlan:
        """Enough blocks of `wide` batch rows to fill the GPU, for matrices of so many rows."""
        inputs = weight.shape[1]
        slabs = -(-rows // ROWS) * -(-columns // wide) * -(-inputs // SLAB)
        shape = GEMM_SHAPES[wide].few_stages if few_stages else GEMM_SHAPES[wide]
        blocks = shape.resident_blocks(weight.format.kernel, self._library.architecture)
        most = max(1, min(self._library.num_sms * blocks, slabs // _LEAST_SLABS))
        return GemmPlan(wide, most, few_stages)


def can_have_few_stages(weight: RepackedTensor, wide: int) -> bool:
    """Whether there is a kernel with two stages for blocks of `wide` batch rows."""
    return weight.format.kernel in _WITH_TWO_STAGES and wide <= _MOST_WITH_TWO_STAGES
