"""Asks NVIDIA's driver why it refuses: the code of `cuInit`, and what to do about it."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_REMEDIES = {
    "CUDA_ERROR_NO_DEVICE": "Remove CUDA_VISIBLE_DEVICES, or start the container with its GPU.",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "The driver was updated: restart the machine.",
    "CUDA_ERROR_SYSTEM_NOT_READY": "Start the fabric manager: `sudo systemctl start "
    "nvidia-fabricmanager`.",
    "CUDA_ERROR_INSUFFICIENT_DRIVER": "Install a driver from 580 on; `ingle doctor` says how.",
    "CUDA_ERROR_UNKNOWN": "Load the module nvidia-uvm: `sudo nvidia-modprobe -u -c 0`, or restart.",
}
_OTHERWISE = "`ingle doctor` checks the driver; restarting the machine helps after an update of it."


@dataclass(frozen=True)
class DriverFault:
    """Why the driver cannot be used, as a clause, and the remedy as a sentence."""

    reason: str
    remedy: str


def driver_fault(library: str = _LIBRARY) -> DriverFault | None:
    """Return what `cuInit` and `cuDeviceGetCount` report; None if there is a usable GPU.

    Source: CUDA Driver API, error codes of `cuInit`.
    """
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        return DriverFault(f"{library} cannot be loaded ({error})", _OTHERWISE)
    code = driver.cuInit(0)
    if code == 0:
        count = ctypes.c_int()
        code = driver.cuDeviceGetCount(ctypes.byref(count))
        if code == 0 and count.value == 0:
            return DriverFault("cuDeviceGetCount finds no GPU", _REMEDIES["CUDA_ERROR_NO_DEVICE"])
    if code == 0:
        return None
    name = _error_name(driver, code)
    return DriverFault(f"cuInit answers {code} ({name})", _REMEDIES.get(name, _OTHERWISE))


def _error_name(driver: ctypes.CDLL, code: int) -> str:
    name = ctypes.c_char_p()
    known = driver.cuGetErrorName(code, ctypes.byref(name)) == 0
    return name.value.decode() if known and name.value else "unknown"
