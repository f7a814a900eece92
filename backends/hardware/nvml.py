"""Readings of NVIDIA GPUs through NVML, the library of their driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .machine import Gpu, GpuProcess

_TRANSFERS_A_CLOCK = 2
"""NVML counts the clock of every kind of memory so that there are two transfers in each."""


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """One GPU at one moment; bytes, a fraction, watts, and joules since its driver was loaded."""

    name: str
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: float | None = None
    watts: float | None = None
    joules: float | None = None


def open_nvml(library: Any = None) -> NvmlReader | None:
    """Return a reader of the GPUs; None without a driver or a GPU."""
    if library is None:
        library = import_module("pynvml")  # here, as it is needed on few machines; it has no types
    try:
        library.nvmlInit()
    except library.NVMLError:
        return None
    reader = NvmlReader(library)
    if reader.count:
        return reader
    reader.close()
    return None


class NvmlReader:
    """The GPUs of one machine; values that a driver does not report are None."""

    def __init__(self, library: Any) -> None:
        """`library` is the module `pynvml`, initialised."""
        self._library = library
        count = self._ask("nvmlDeviceGetCount") or 0
        handles = [self._ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
        self._handles = [handle for handle in handles if handle is not None]
        self.count = len(self._handles)

    def close(self) -> None:
        """Release the driver; nothing can be read any more."""
        self._library.nvmlShutdown()

    def read(self) -> list[GpuReading]:
        """Return one reading of each GPU, in the driver's order; blocking."""
        return [self._reading(handle) for handle in self._handles]

    def describe(self, name_of: Callable[[int], str] | None = None) -> list[Gpu]:
        """Return all that is known of each GPU; `name_of` returns a process's name."""
        driver, cuda = self._ask("nvmlSystemGetDriverVersion") or "", self._cuda()
        return [
            self._gpu(handle, driver, cuda, name_of or _process_name) for handle in self._handles
        ]

    def _reading(self, handle: Any) -> GpuReading:
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        used = self._ask("nvmlDeviceGetUtilizationRates", handle)
        return GpuReading(
            name=self._name(handle),
            memory_total=memory and memory.total,
            memory_used=memory and memory.used,
            utilization=used and used.gpu / 100,
            watts=self._thousandths("nvmlDeviceGetPowerUsage", handle),
            joules=self._thousandths("nvmlDeviceGetTotalEnergyConsumption", handle),
        )

    def _gpu(self, handle: Any, driver: str, cuda: str, name_of: Callable[[int], str]) -> Gpu:
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        # The highest clock of the memory.
        clock = self._ask("nvmlDeviceGetMaxClockInfo", handle, self._library.NVML_CLOCK_MEM)
        bits = self._ask("nvmlDeviceGetMemoryBusWidth", handle)
        capability = self._ask("nvmlDeviceGetCudaComputeCapability", handle)
        return Gpu(
            name=self._name(handle),
            vendor="nvidia",
            uuid=self._ask("nvmlDeviceGetUUID", handle) or "",
            driver=driver,
            cuda=cuda,
            memory_total=memory and memory.total,
            memory_free=memory and memory.free,
            compute_capability=capability and (capability[0], capability[1]),
            cores=self._ask("nvmlDeviceGetNumGpuCores", handle) or 0,
            bandwidth=_TRANSFERS_A_CLOCK * clock * 1e6 * bits / 8 if clock and bits else None,
            power_limit=self._thousandths("nvmlDeviceGetEnforcedPowerLimit", handle),
            watts=self._thousandths("nvmlDeviceGetPowerUsage", handle),
            processes=self._processes(handle, name_of),
        )

    def _name(self, handle: Any) -> str:
        return self._ask("nvmlDeviceGetName", handle) or "NVIDIA GPU"

    def _cuda(self) -> str:
        """Return the newest CUDA that the driver runs, such as "12.4"."""
        version = self._ask("nvmlSystemGetCudaDriverVersion_v2")
        return f"{version // 1000}.{version % 1000 // 10}" if version else ""

    def _processes(self, handle: Any, name_of: Callable[[int], str]) -> list[GpuProcess]:
        """Return the processes that compute and those that render; some do both."""
        found: dict[int, int | None] = {}
        for kind in ("Compute", "Graphics"):
            for info in self._ask(f"nvmlDeviceGet{kind}RunningProcesses_v3", handle) or ():
                memory = info.usedGpuMemory  # None on Windows and WSL
                found[info.pid] = max(found.get(info.pid) or 0, memory or 0) or memory
        return [
            GpuProcess(pid=pid, name=name_of(pid), memory=memory)
            for pid, memory in sorted(found.items(), key=lambda item: -(item[1] or 0))
        ]

    def _thousandths(self, function: str, handle: Any) -> float | None:
        value = self._ask(function, handle)
        return None if value is None else value / 1000

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Return the driver's answer; None if it is too old for the function or has none."""
        try:
            return getattr(self._library, function)(*arguments)
        except self._library.NVMLError:
            return None


def describe_nvidia_gpus(name_of: Callable[[int], str] | None = None) -> list[Gpu]:
    """Open the driver for one description of each GPU; see `NvmlReader.describe`."""
    reader = open_nvml()
    if reader is None:
        return []
    with closing(reader):
        return reader.describe(name_of)


def _process_name(pid: int) -> str:
    import psutil  # takes milliseconds of the daemon's start

    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""
