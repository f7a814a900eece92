"""The storage format of a head in a quantised KV page: block size, bytes."""

from __future__ import annotations

from dataclasses import dataclass

_LARGEST_BLOCK = 32
_SCALE_BYTES = 2


@dataclass(frozen=True)
class KVPageFormat:
    """One head of `head_size` elements in codes of `bits` (8 or 4) and 16-bit scales.

    Raises ValueError for heads that are no multiple of 8 elements.
    """

    bits: int
    head_size: int

    def __post_init__(self) -> None:
        if self.bits not in (4, 8) or self.head_size <= 0 or self.head_size % 8:
            raise ValueError(f"no {self.bits}-bit pages for heads of {self.head_size} elements")

    @property
    def block_size(self) -> int:
        """The consecutive elements that are rotated together and share a scale.

        The largest power of two that divides `head_size`, at most 32, the lanes of a warp. Wider
        rotations do not reduce the error, since outliers stay in their block.
        """
        return block_size(self.head_size)

    def ends_with(self, count: int) -> bool:
        """Whether the last `count` elements are a head of their own, in the same blocks."""
        return self.bits == 8 and block_size(count) == self.block_size and count % 8 == 0

    @property
    def blocks(self) -> int:
        """Blocks of a head, each with a scale."""
        return self.head_size // self.block_size

    @property
    def code_bytes(self) -> int:
        """Bytes of a head's codes."""
        return self.head_size * self.bits // 8

    @property
    def nbytes(self) -> int:
        """Bytes of a head in all."""
        return self.code_bytes + self.blocks * _SCALE_BYTES


def block_size(head_size: int) -> int:
    """Elements, one after the other, that are rotated among themselves and share a scale.

    The largest power of two that divides `head_size`, 32 at most: as many as a warp has lanes.
    Wider rotations make the error no smaller, since what is large in one block stays out of others.
    """
    return min(_LARGEST_BLOCK, head_size & -head_size)
