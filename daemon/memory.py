"""What memory the machine has, and waiting until some of it is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec
import psutil

MIB = 2**20


class MemorySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's memory at one moment, in bytes."""

    total: int
    available: int
    daemon_rss: int = 0

    @classmethod
    def read(cls) -> MemorySnapshot:
        """Ask the operating system."""
        machine = psutil.virtual_memory()
        return cls(
            total=machine.total,
            available=machine.available,
            daemon_rss=psutil.Process().memory_info().rss,
        )

    @property
    def usable(self) -> int:
        """What models may take: the rest stays for the desktop, a twentieth but at most 1 GiB."""
        return max(0, self.available - min(self.total // 20, 1024 * MIB))


MemoryReader = Callable[[], MemorySnapshot]


class ProcessMemory(msgspec.Struct, frozen=True):
    """A process's resident bytes, and those of them that no file backs."""

    resident: int = 0
    private: int = 0

    @classmethod
    def read(cls, pid: int | None) -> ProcessMemory:
        """Zero for a process that is gone, and for no process."""
        if pid is None:
            return cls()
        try:
            memory = psutil.Process(pid).memory_info()
        except psutil.Error:
            return cls()
        return cls(memory.rss, max(0, memory.rss - int(getattr(memory, "shared", 0))))


async def wait_for_release(
    needed: int, free: Callable[[], int], *, patience: float = 5.0, interval: float = 0.05
) -> bool:
    """Poll until `free()` says that `needed` bytes are back; False after `patience` seconds.

    A process that ended gives its memory back a little later, device memory much later.
    """
    deadline = time.monotonic() + patience
    # Nothing tells when memory is back, so it has to be asked.
    while not (enough := free() >= needed) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(interval)
    return enough
