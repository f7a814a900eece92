"""Amounts of memory of both kinds, as a model needs them or as there are."""

from __future__ import annotations

import msgspec


class MemoryNeeds(msgspec.Struct, frozen=True):
    """Bytes of the machine's memory, and of the GPU's; what is free can be less than nothing.

    Where a machine has several GPUs, `gpu` means the one that models are loaded on.
    """

    host: int = 0
    gpu: int = 0

    def __add__(self, other: MemoryNeeds) -> MemoryNeeds:
        """Both together."""
        return MemoryNeeds(self.host + other.host, self.gpu + other.gpu)

    def __sub__(self, other: MemoryNeeds) -> MemoryNeeds:
        """This less the other."""
        return MemoryNeeds(self.host - other.host, self.gpu - other.gpu)

    def __bool__(self) -> bool:
        """Whether any amount is not zero."""
        return self.host != 0 or self.gpu != 0

    def fits_in(self, other: MemoryNeeds) -> bool:
        """Whether the other holds as much of both kinds; of a kind not needed it may lack any."""
        return (self.host <= 0 or self.host <= other.host) and (
            self.gpu <= 0 or self.gpu <= other.gpu
        )

    @property
    def total(self) -> int:
        """Bytes of both kinds, as where it does not matter which."""
        return self.host + self.gpu
