"""The memory of the process that recognises speech."""

from __future__ import annotations

import msgspec

from ingle.models.fit.memory_needs import MemoryNeeds

from ..machine.memory_reader import MIB, ProcessMemory

PROCESS = 64 * MIB
"""Of a process with its libraries, before it has a model."""


class SpeechMemory(msgspec.Struct, frozen=True):
    """What the process needs with its model, and what it has; nothing without a process.

    Long audio is not foreseen: its length is known only once it is decoded.
    """

    needs: MemoryNeeds = MemoryNeeds()
    process: ProcessMemory = ProcessMemory()

    @classmethod
    def read(cls, pid: int | None, model_bytes: int) -> SpeechMemory:
        """Return the memory of a process with a model of so many bytes of files."""
        if pid is None:
            return cls()
        # Weights of 16 bits become 8 bits; half a minute of audio takes about the other half.
        return cls(MemoryNeeds(PROCESS + model_bytes), ProcessMemory.read(pid))

    @property
    def untouched(self) -> MemoryNeeds:
        """Return what it is going to take yet."""
        return MemoryNeeds(max(0, self.needs.host - self.process.private))
