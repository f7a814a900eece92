"""What NVIDIA's driver tells of its GPUs, through NVML, without any package for it."""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref
from dataclasses import dataclass
from typing import Any, Protocol

_NAME_LENGTH = 96


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """One GPU at one moment; bytes, a fraction, watts, and joules since its driver was loaded."""

    name: str
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: float | None = None
    watts: float | None = None
    joules: float | None = None


class GpuReader(Protocol):
    """Reads all GPUs there are; blocking."""

    def read(self) -> list[GpuReading]:
        """One reading a GPU, in the driver's order."""
        ...


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


class _Utilization(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint) for name in ("gpu", "memory"))


def open_nvml(library: Any = None) -> NvmlReader | None:
    """The driver's library, ready to be asked; None where there is none, or it knows no GPU."""
    if library is None:
        try:
            library = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
        except OSError:
            return None
    if library.nvmlInit_v2() != 0:
        return None
    reader = NvmlReader(library)
    return reader if reader.count else None


class NvmlReader:
    """The GPUs of one machine; what a driver does not tell is None."""

    def __init__(self, library: Any) -> None:
        """`library` is NVML, initialised."""
        self._library = library
        count = ctypes.c_uint()
        failed = library.nvmlDeviceGetCount_v2(byref(count))
        self._handles = [] if failed else list(self._find(count.value))
        self.count = len(self._handles)

    def read(self) -> list[GpuReading]:
        """See `GpuReader.read`."""
        return [self._reading(handle) for handle in self._handles]

    def _find(self, count: int) -> list[ctypes.c_void_p]:
        handles: list[ctypes.c_void_p] = []
        for index in range(count):
            handle = ctypes.c_void_p()
            if self._library.nvmlDeviceGetHandleByIndex_v2(index, byref(handle)) == 0:
                handles.append(handle)
        return handles

    def _reading(self, handle: ctypes.c_void_p) -> GpuReading:
        library = self._library
        name, memory, used = ctypes.create_string_buffer(_NAME_LENGTH), _Memory(), _Utilization()
        milliwatts, millijoules = ctypes.c_uint(), ctypes.c_ulonglong()
        named = library.nvmlDeviceGetName(handle, name, _NAME_LENGTH) == 0
        sized = library.nvmlDeviceGetMemoryInfo(handle, byref(memory)) == 0
        busy = library.nvmlDeviceGetUtilizationRates(handle, byref(used)) == 0
        powered = library.nvmlDeviceGetPowerUsage(handle, byref(milliwatts)) == 0
        counted = library.nvmlDeviceGetTotalEnergyConsumption(handle, byref(millijoules)) == 0
        return GpuReading(
            name=name.value.decode("utf-8", "replace") if named else "NVIDIA GPU",
            memory_total=int(memory.total) if sized else None,
            memory_used=int(memory.used) if sized else None,
            utilization=used.gpu / 100 if busy else None,
            watts=milliwatts.value / 1000 if powered else None,
            joules=millijoules.value / 1000 if counted else None,
        )
