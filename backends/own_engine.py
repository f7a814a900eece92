"""What this machine has for ingle's own engine, found out without loading any of it."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec

_OLDEST = (7, 5)
"""The compute capability that PyTorch's builds of today begin with."""
_NONE = (0, (0, 0))


@dataclass(frozen=True)
class OwnEngine:
    """Whether PyTorch is installed, and the GPU it would use.

    `gpu_memory` is in bytes (0: none), `capability` its major and minor compute capability.
    """

    has_torch: bool = False
    gpu_memory: int = 0
    capability: tuple[int, int] = (0, 0)

    @classmethod
    def find(cls) -> OwnEngine:
        """Look at what is installed, and ask the driver."""
        return cls(find_spec("torch") is not None, *_gpu())


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


def _gpu() -> tuple[int, tuple[int, int]]:
    """Memory and capability of the first NVIDIA GPU, unless it is hidden or too old."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in {"", "-1"}:
        return _NONE
    try:
        nvml = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return _NONE
    if nvml.nvmlInit_v2() != 0:
        return _NONE
    try:
        return _first_gpu(nvml)
    finally:
        nvml.nvmlShutdown()


def _first_gpu(nvml: ctypes.CDLL) -> tuple[int, tuple[int, int]]:
    handle, memory = ctypes.c_void_p(), _Memory()
    major, minor = ctypes.c_int(), ctypes.c_int()
    if nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) != 0:
        return _NONE
    if (
        nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
        != 0
        or nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0
    ):
        return _NONE
    capability = major.value, minor.value
    return (int(memory.total), capability) if capability >= _OLDEST else _NONE
