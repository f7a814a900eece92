"""What NVIDIA's driver tells of its GPUs, through NVML, without any package for it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import byref
from dataclasses import dataclass
from typing import Any, Protocol

import psutil

from .machine import Gpu, GpuProcess

_NAME_LENGTH = 96
_MEMORY_CLOCK = 2
_NOT_TOLD = 2**64 - 1
_MOST_PROCESSES = 256
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


class GpuReader(Protocol):
    """Reads all GPUs there are; blocking."""

    def read(self) -> list[GpuReading]:
        """One reading a GPU, in the driver's order."""
        ...

    def close(self) -> None:
        """Let go of the driver; nothing can be read any more."""
        ...


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


class _Utilization(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint) for name in ("gpu", "memory"))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


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
    if reader.count:
        return reader
    reader.close()
    return None


class NvmlReader:
    """The GPUs of one machine; what a driver does not tell is None."""

    def __init__(self, library: Any) -> None:
        """`library` is NVML, initialised."""
        self._library = library
        count = ctypes.c_uint()
        failed = library.nvmlDeviceGetCount_v2(byref(count))
        self._handles = [] if failed else list(self._find(count.value))
        self.count = len(self._handles)

    def close(self) -> None:
        """Let go of the driver; nothing can be read any more."""
        self._library.nvmlShutdown()

    def read(self) -> list[GpuReading]:
        """See `GpuReader.read`."""
        return [self._reading(handle) for handle in self._handles]

    def describe(self, name_of: Callable[[int], str] | None = None) -> list[Gpu]:
        """All there is to know of each GPU; `name_of` tells a process's name."""
        driver, cuda = self._text("nvmlSystemGetDriverVersion"), self._cuda()
        return [
            self._gpu(handle, driver, cuda, name_of or _process_name) for handle in self._handles
        ]

    def _find(self, count: int) -> list[ctypes.c_void_p]:
        handles: list[ctypes.c_void_p] = []
        for index in range(count):
            handle = ctypes.c_void_p()
            if self._library.nvmlDeviceGetHandleByIndex_v2(index, byref(handle)) == 0:
                handles.append(handle)
        return handles

    def _reading(self, handle: ctypes.c_void_p) -> GpuReading:
        memory, used = self._memory(handle), _Utilization()
        busy = self._library.nvmlDeviceGetUtilizationRates(handle, byref(used)) == 0
        count = self._function("nvmlDeviceGetTotalEnergyConsumption")
        millijoules = ctypes.c_ulonglong()
        counted = count is not None and count(handle, byref(millijoules)) == 0
        return GpuReading(
            name=self._name(handle),
            memory_total=int(memory.total) if memory else None,
            memory_used=int(memory.used) if memory else None,
            utilization=used.gpu / 100 if busy else None,
            watts=self._watts("nvmlDeviceGetPowerUsage", handle),
            joules=millijoules.value / 1000 if counted else None,
        )

    def _gpu(
        self, handle: ctypes.c_void_p, driver: str, cuda: str, name_of: Callable[[int], str]
    ) -> Gpu:
        memory = self._memory(handle)
        return Gpu(
            name=self._name(handle),
            vendor="nvidia",
            uuid=self._text("nvmlDeviceGetUUID", handle),
            driver=driver,
            cuda=cuda,
            memory_total=int(memory.total) if memory else None,
            memory_free=int(memory.free) if memory else None,
            compute_capability=self._capability(handle),
            cores=self._number("nvmlDeviceGetNumGpuCores", handle) or 0,
            bandwidth=self._bandwidth(handle),
            power_limit=self._watts("nvmlDeviceGetEnforcedPowerLimit", handle),
            watts=self._watts("nvmlDeviceGetPowerUsage", handle),
            processes=self._processes(handle, name_of),
        )

    def _name(self, handle: ctypes.c_void_p) -> str:
        return self._text("nvmlDeviceGetName", handle) or "NVIDIA GPU"

    def _memory(self, handle: ctypes.c_void_p) -> _Memory | None:
        memory = _Memory()
        failed = self._library.nvmlDeviceGetMemoryInfo(handle, byref(memory))
        return None if failed else memory

    def _capability(self, handle: ctypes.c_void_p) -> tuple[int, int] | None:
        major, minor = ctypes.c_int(), ctypes.c_int()
        failed = self._library.nvmlDeviceGetCudaComputeCapability(
            handle, byref(major), byref(minor)
        )
        return None if failed else (major.value, minor.value)

    def _bandwidth(self, handle: ctypes.c_void_p) -> float | None:
        """Bytes a second at the highest clock of the memory."""
        clock = self._number("nvmlDeviceGetMaxClockInfo", handle, _MEMORY_CLOCK)
        bits = self._number("nvmlDeviceGetMemoryBusWidth", handle)
        return _TRANSFERS_A_CLOCK * clock * 1e6 * bits / 8 if clock and bits else None

    def _watts(self, function: str, handle: ctypes.c_void_p) -> float | None:
        milliwatts = self._number(function, handle)
        return None if milliwatts is None else milliwatts / 1000

    def _cuda(self) -> str:
        """The newest CUDA that the driver runs, such as "12.4"."""
        version = self._number("nvmlSystemGetCudaDriverVersion_v2")
        return f"{version // 1000}.{version % 1000 // 10}" if version else ""

    def _processes(
        self, handle: ctypes.c_void_p, name_of: Callable[[int], str]
    ) -> list[GpuProcess]:
        """Those that compute and those that draw; some do both."""
        found: dict[int, int | None] = {}
        for kind in ("Compute", "Graphics"):
            function = self._function(f"nvmlDeviceGet{kind}RunningProcesses_v3")
            count, infos = ctypes.c_uint(_MOST_PROCESSES), (_Process * _MOST_PROCESSES)()
            if function is None or function(handle, byref(count), infos) != 0:
                continue
            for info in infos[: count.value]:
                # Windows and WSL say who is there, but not with how much.
                memory = None if info.memory == _NOT_TOLD else int(info.memory)
                found[info.pid] = max(found.get(info.pid) or 0, memory or 0) or memory
        return [
            GpuProcess(pid=pid, name=name_of(pid), memory=memory)
            for pid, memory in sorted(found.items(), key=lambda item: -(item[1] or 0))
        ]

    def _number(self, function: str, *arguments: object) -> int | None:
        value = ctypes.c_uint()
        call = self._function(function)
        return None if call is None or call(*arguments, byref(value)) != 0 else value.value

    def _text(self, function: str, *arguments: object) -> str:
        buffer = ctypes.create_string_buffer(_NAME_LENGTH)
        call = self._function(function)
        if call is None or call(*arguments, buffer, _NAME_LENGTH) != 0:
            return ""
        return buffer.value.decode("utf-8", "replace")

    def _function(self, name: str) -> Callable[..., int] | None:
        """None where the driver is older than the function."""
        return getattr(self._library, name, None)


def _process_name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""
