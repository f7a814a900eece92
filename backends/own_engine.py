"""What this machine has for ingle's own engine, found out without loading any of it."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec

_OLDEST = (7, 5)
"""The compute capability that PyTorch's builds of today begin with."""


@dataclass(frozen=True)
class OwnEngine:
    """Whether PyTorch is installed, and the memory in bytes of the GPU it would use (0: none)."""

    has_torch: bool = False
    gpu_memory: int = 0

    @classmethod
    def find(cls) -> OwnEngine:
        """Look at what is installed, and ask the driver."""
        return cls(find_spec("torch") is not None, _gpu_memory())


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


def _gpu_memory() -> int:
    """Of the first NVIDIA GPU, unless it is hidden from programs or too old."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in {"", "-1"}:
        return 0
    try:
        nvml = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return 0
    if nvml.nvmlInit_v2() != 0:
        return 0
    try:
        return _first_gpu(nvml)
    finally:
        nvml.nvmlShutdown()


def _first_gpu(nvml: ctypes.CDLL) -> int:
    handle, memory = ctypes.c_void_p(), _Memory()
    major, minor = ctypes.c_int(), ctypes.c_int()
    if nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) != 0:
        return 0
    if (
        nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
        != 0
        or nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0
    ):
        return 0
    return int(memory.total) if (major.value, minor.value) >= _OLDEST else 0
