"""Amounts of memory of each kind, as a model needs them or as there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from operator import add, sub
from typing import NamedTuple

import msgspec


class Shortage(NamedTuple):
    """What there is too little of, in words, with the bytes that are needed and that there are."""

    kind: str
    needed: int
    free: int


class MemoryNeeds(msgspec.Struct, frozen=True):
    """Bytes of the machine's memory, and of the GPU's; what is free can be less than nothing.

    Where a machine has several GPUs, `gpu` means the one that models are loaded on, and
    `other_gpus` those behind it, in the order of `CUDA_VISIBLE_DEVICES`, on which divided models
    have parts.
    """

    host: int = 0
    gpu: int = 0
    other_gpus: tuple[int, ...] = ()

    @property
    def gpus(self) -> tuple[int, ...]:
        """Bytes of each GPU."""
        return self.gpu, *self.other_gpus

    def __add__(self, other: MemoryNeeds) -> MemoryNeeds:
        """Both together."""
        others = tuple(add(*pair) for pair in _pairs(self.other_gpus, other.other_gpus))
        return MemoryNeeds(self.host + other.host, self.gpu + other.gpu, others)

    def __sub__(self, other: MemoryNeeds) -> MemoryNeeds:
        """This less the other."""
        others = tuple(sub(*pair) for pair in _pairs(self.other_gpus, other.other_gpus))
        return MemoryNeeds(self.host - other.host, self.gpu - other.gpu, others)

    def __bool__(self) -> bool:
        """Whether any amount is not zero."""
        return self.host != 0 or any(self.gpus)

    def fits_in(self, other: MemoryNeeds) -> bool:
        """Whether the other holds as much of each kind; of a kind not needed it may lack any."""
        pairs = ((self.host, other.host), *_pairs(self.gpus, other.gpus))
        return all(needed <= 0 or needed <= free for needed, free in pairs)

    def shortage_in(self, free: MemoryNeeds) -> Shortage:
        """What there is too little of: a GPU's memory, else the machine's."""
        for number, (needed, there) in enumerate(_pairs(self.gpus, free.gpus)):
            if needed > max(0, there):
                kind = f"memory of GPU {number}" if any(self.other_gpus) else "GPU memory"
                return Shortage(kind, needed, max(0, there))
        return Shortage("memory", self.host, max(0, free.host))

    @property
    def total(self) -> int:
        """Bytes of all kinds, as where it does not matter which."""
        return self.host + sum(self.gpus)


def _pairs(first: Sequence[int], second: Sequence[int]) -> zip_longest[tuple[int, int]]:
    return zip_longest(first, second, fillvalue=0)
