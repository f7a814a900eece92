"""The energy that the first GPU has used, as its driver counts it."""

from __future__ import annotations

import ctypes
from ctypes import byref


class EnergyMeter:
    """Measures joules since its creation; none if the driver does not report them."""

    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()
        try:
            self._nvml: ctypes.CDLL | None = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            self._nvml = None
            return
        self._nvml.nvmlInit_v2()
        if self._nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(self._handle)):
            self._nvml = None
        self._began = self._millijoules()

    def joules(self) -> float | None:
        """Since this object was made."""
        now = self._millijoules()
        return None if now is None or self._began is None else (now - self._began) / 1000

    def _millijoules(self) -> int | None:
        total = ctypes.c_ulonglong()
        if self._nvml is None:
            return None
        failed = self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle, byref(total))
        return None if failed else int(total.value)
