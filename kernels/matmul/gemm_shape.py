"""Tile shapes of csrc/gemm.cuh, and the shared memory and threads that they take."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..formats.weight_format import WEIGHT_FORMATS

ROWS = 128
"""Matrix rows of a block."""
SLAB = 128
"""Inputs that a block multiplies at a time."""
_GROUPS, _SCALE_BYTES = 4, 48
_ROW_BYTES: Mapping[str, int] = MappingProxyType(
    {form.kernel: form.gemm_row_bytes for form in WEIGHT_FORMATS.values() if form.has_kernels}
)
# Shared memory of an SM for all its blocks, each of which takes 1 KB more than it requests.
_SHARED_BYTES: Mapping[str, int] = MappingProxyType({"sm_90": 228 << 10})
_SHARED_BYTES_ELSEWHERE, _SHARED_BYTES_OF_A_BLOCK = 100 << 10, 1 << 10

GEMM_SOURCES = frozenset(_ROW_BYTES)
"""The kernel names of the formats that have GEMM kernels."""


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

    def shared_bytes(self, source: str) -> int:
        """Dynamic shared memory of a block, in bytes, for weights of the kernel `source`."""
        values, facts = 2 * (16 * self.columns + 64) + 16, 8 * self.columns + 32
        stage = ROWS * _ROW_BYTES[source] + _GROUPS * (values + facts)
        return self.stages * stage + self.threads * _SCALE_BYTES

    def resident_blocks(self, source: str, architecture: str) -> int:
        """The blocks that an SM runs at a time."""
        shared = _SHARED_BYTES.get(architecture, _SHARED_BYTES_ELSEWHERE)
        return min(self.blocks, shared // (self.shared_bytes(source) + _SHARED_BYTES_OF_A_BLOCK))


GEMM_SHAPES: Mapping[int, GemmShape] = MappingProxyType(
    {
        shape.columns: shape
        for shape in (
            GemmShape(1, 1, 4, 4),
            GemmShape(2, 1, 4, 3),
            GemmShape(4, 1, 3, 2),
            GemmShape(8, 1, 2, 2),
            GemmShape(8, 2, 2, 1),
        )
    }
)
"""The shapes by batch rows, as csrc/gemm.cuh compiles them."""
