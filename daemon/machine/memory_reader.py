"""Reads free memory of the machine and its GPU, and waits for memory to be freed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

import msgspec

from ingle.backends.hardware.machine import Gpu
from ingle.backends.hardware.nvml import NvmlReader, open_nvml
from ingle.backends.hardware.read_memory import read_memory
from ingle.backends.registry.cuda_availability import visible_gpus
from ingle.models.fit.memory_needs import MemoryNeeds

from ..client.daemon_types import GpuMemory, MemoryGauges
from ..client.model_types import MemoryBytes
from .gpu_driver import GpuDriver

MIB = 2**20


class MemorySnapshot(MemoryGauges, frozen=True, kw_only=True):
    """A reading of the memory, in bytes, within the limit of a control group."""

    @classmethod
    def read(cls, gpus: Sequence[Gpu] = ()) -> MemorySnapshot:
        """Read the state from the operating system; models are loaded on the first of the GPUs."""
        import psutil  # takes milliseconds of the daemon's start

        machine = read_memory()
        first, *others = map(_memory_of, gpus) if gpus else [GpuMemory()]
        return cls(
            total=machine.usable_total,
            available=machine.usable,
            daemon_rss=psutil.Process().memory_info().rss,
            gpu_total=first.total,
            gpu_available=first.available,
            gpu_processes=first.processes,
            other_gpus=others,
        )

    @property
    def share_of_others(self) -> MemoryNeeds:
        """Return the reserve for other programs: a twentieth, at most 1 GiB, and half of that of a
        GPU.
        """
        first, *others = (
            min(total // 20, 512 * MIB)
            for total in (self.gpu_total, *(each.total for each in self.other_gpus))
        )
        return MemoryNeeds(min(self.total // 20, 1024 * MIB), first, tuple(others))

    @property
    def usable(self) -> MemoryNeeds:
        """Return what models may take now; negative if other programs use a part of their share."""
        others = tuple(each.available for each in self.other_gpus)
        return MemoryNeeds(self.available, self.gpu_available, others) - self.share_of_others

    def held_by(self, pids: Collection[int]) -> tuple[int | None, ...]:
        """Return the bytes of the processes on each GPU; None where the driver reports none."""
        found: list[int | None] = []
        for processes in (self.gpu_processes, *(each.processes for each in self.other_gpus)):
            own = [processes[pid] for pid in pids if pid in processes]
            found.append(sum(own) if own else None)
        return tuple(found)


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
            return MemorySnapshot.read(() if driver is None else self._gpus(driver))

    def _gpus(self, driver: NvmlReader) -> Sequence[Gpu]:
        gpus = driver.describe(name_of=str)
        if all(gpu.memory_total is None for gpu in gpus):
            self._driver.failed()  # it was updated while open, or has lost its GPU
        return visible_gpus(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _memory_of(gpu: Gpu) -> GpuMemory:
    return GpuMemory(
        total=gpu.memory_total or 0,
        available=gpu.memory_free or 0,
        processes={each.pid: each.memory for each in gpu.processes if each.memory},
    )


def memory_bytes(amount: MemoryNeeds) -> MemoryBytes:
    """Return the amount as the API has it."""
    return MemoryBytes(amount.host, amount.gpu, amount.other_gpus)


def process_tree(pid: int | None) -> list[int]:
    """Return the process and all that it started; none if it has ended, and for None."""
    if pid is None:
        return []
    import psutil

    try:
        return [pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return []


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
