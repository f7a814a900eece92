"""Reads free memory of the machine and its GPU, and waits for memory to be freed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from ingle.backends.hardware.machine import Gpu
from ingle.backends.hardware.nvml import NvmlReader, open_nvml
from ingle.backends.hardware.read_memory import read_memory
from ingle.backends.registry.cuda_availability import first_visible
from ingle.models.fit.memory_needs import MemoryNeeds

from ..client.daemon_types import MemoryGauges
from .gpu_driver import GpuDriver

MIB = 2**20


class MemorySnapshot(MemoryGauges, frozen=True, kw_only=True):
    """A reading of the memory, in bytes, within the limit of a control group."""

    @classmethod
    def read(cls, gpu: Gpu | None = None) -> MemorySnapshot:
        """Read the state from the operating system."""
        import psutil  # takes milliseconds of the daemon's start

        machine = read_memory()
        return cls(
            total=machine.usable_total,
            available=machine.usable,
            daemon_rss=psutil.Process().memory_info().rss,
            gpu_total=gpu.memory_total or 0 if gpu else 0,
            gpu_available=gpu.memory_free or 0 if gpu else 0,
            gpu_processes={p.pid: p.memory for p in gpu.processes if p.memory} if gpu else {},
        )

    @property
    def share_of_others(self) -> MemoryNeeds:
        """Return the reserve for other programs: a twentieth, at most 1 GiB, and half of that of a
        GPU.
        """
        return MemoryNeeds(min(self.total // 20, 1024 * MIB), min(self.gpu_total // 20, 512 * MIB))

    @property
    def usable(self) -> MemoryNeeds:
        """Return what models may take now; negative if other programs use a part of their share."""
        return MemoryNeeds(self.available, self.gpu_available) - self.share_of_others


MemoryReader = Callable[[], MemorySnapshot]


class MemoryMeter:
    """A `MemoryReader` that includes GPU memory; safe in any thread.

    `hold` says whether more readings will follow (see `GpuDriver`).
    """

    def __init__(self, open_gpus: Callable[[], NvmlReader | None] = open_nvml) -> None:
        self._driver = GpuDriver(open_gpus)
        self.hold = self._driver.hold

    def __call__(self) -> MemorySnapshot:
        """Read both kinds; blocks for milliseconds if there is a GPU."""
        with self._driver.opened() as driver:
            return MemorySnapshot.read(None if driver is None else self._gpu(driver))

    def _gpu(self, driver: NvmlReader) -> Gpu | None:
        gpus = driver.describe(name_of=str)
        if all(gpu.memory_total is None for gpu in gpus):
            self._driver.failed()  # it was updated while open, or has lost its GPU
        return first_visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))


class ProcessMemory(msgspec.Struct, frozen=True):
    """A process's resident bytes, and those of them that are anonymous."""

    resident: int = 0
    private: int = 0

    @classmethod
    def read(cls, pid: int | None, *, with_children: bool = False) -> ProcessMemory:
        """Return zeros for a process that has ended, and for None.

        With its children, pages that several of them share count several times as resident.
        """
        if pid is None:
            return cls()
        import psutil

        try:
            process = psutil.Process(pid)
            found = [process.memory_info()]
            children = process.children(recursive=True) if with_children else []
        except psutil.Error:
            return cls()
        for child in children:
            with suppress(psutil.Error):  # it has ended
                found.append(child.memory_info())
        private = sum(max(0, each.rss - int(getattr(each, "shared", 0))) for each in found)
        return cls(sum(each.rss for each in found), private)


async def wait_for_release(
    needed: MemoryNeeds,
    free: Callable[[], MemoryNeeds],
    *,
    patience: float = 5.0,
    interval: float = 0.05,
) -> bool:
    """Poll until `free()` has `needed` bytes; False after `patience` seconds.

    Host memory of an ended process is freed a little later, device memory much later. `free` is
    called in a thread.
    """
    deadline = time.monotonic() + patience
    # There is no notification of freed memory, so it is polled.
    while not (enough := needed.fits_in(await asyncio.to_thread(free))):
        if time.monotonic() >= deadline:
            break
        await asyncio.sleep(interval)
    return enough
