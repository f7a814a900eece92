"""What part of a product a block of csrc/gemm.cuh takes, and what it needs for that."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..formats.weight_format import WEIGHT_FORMATS

ROWS = 128
"""Of the matrix, in a block."""
SLAB = 128
"""Inputs that are multiplied at a time."""
_GROUPS, _SCALE_BYTES = 4, 48
_ROW_BYTES: Mapping[str, int] = MappingProxyType(
    {form.kernel: form.gemm_row_bytes for form in WEIGHT_FORMATS.values() if form.has_kernels}
)
# What a processor has for all of its blocks; each takes 1 KB more than it asks for.
_SHARED_BYTES: Mapping[str, int] = MappingProxyType({"sm_90": 228 << 10})
_SHARED_BYTES_ELSEWHERE, _SHARED_BYTES_OF_A_BLOCK = 100 << 10, 1 << 10

GEMM_SOURCES = frozenset(_ROW_BYTES)
"""The kernel names of the formats that have GEMM kernels."""


class GemmShape(NamedTuple):
    """A block's columns: so many of its warps side by side, each with so many tiles of eight.

    `stages` slabs have room in shared memory; `blocks` have room on a processor for registers.
    """

    column_tiles: int
    column_warps: int
    stages: int
    blocks: int

    @property
    def columns(self) -> int:
        """Of a block."""
        return 8 * self.column_tiles * self.column_warps

    @property
    def threads(self) -> int:
        """Of a block."""
        return 128 * self.column_warps

    def shared_bytes(self, source: str) -> int:
        """Of a block, for weights of the type `source`."""
        values, facts = 2 * (16 * self.columns + 64) + 16, 8 * self.columns + 32
        stage = ROWS * _ROW_BYTES[source] + _GROUPS * (values + facts)
        return self.stages * stage + self.threads * _SCALE_BYTES

    def resident_blocks(self, source: str, architecture: str) -> int:
        """How many blocks a processor runs at a time."""
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
"""By columns, as csrc/gemm.cuh compiles them."""
