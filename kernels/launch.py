"""Kernels started through the NVIDIA driver itself, which needs no package and no compiler."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p
from pathlib import Path
from typing import Protocol

from .errors import DriverUnavailable, LaunchFailed

Argument = ctypes.c_void_p | ctypes.c_int | ctypes.c_longlong | ctypes.c_float
Grid = tuple[int, int, int]

# Names of the driver API: CUdevice_attribute, CUfunction_attribute, CUlaunchAttributeID.
_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _PROCESSORS, _SHARED_BYTES = 75, 76, 16, 97
_MAX_DYNAMIC_SHARED = 8
_OVERLAP_WITH_PREVIOUS = 6
# More than this a kernel gets only on demand.
_SHARED_WITHOUT_ASKING = 48 * 1024


class KernelModule(Protocol):
    """Kernels of one source file, compiled for a GPU or, by the tests, for the CPU."""

    def launch(
        self,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        stream: int = 0,
        overlap: bool = False,
    ) -> None:
        """Start `kernel` with arguments in the order of its parameters.

        `overlap` lets it begin before the previous one in `stream` ends, on sm_90 and later; it
        has to wait itself before it reads what that one writes. Raises `LaunchFailed`.
        """
        ...


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_int * 16))


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("attribute_count", c_uint),
    )


class Driver:
    """The driver's library and one device, whose primary context (torch's, too) it uses.

    Raises `DriverUnavailable` where there is no driver or no such device.
    """

    def __init__(self, device: int = 0, library: Path | None = None) -> None:
        default = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            self._cuda = ctypes.CDLL(str(library or default))
        except OSError as error:
            raise DriverUnavailable(
                "There is no NVIDIA driver.", hint="Install the driver of your GPU."
            ) from error
        self._device, self._context = c_int(), c_void_p()
        try:
            self.call("cuInit", c_uint(0))
            self.call("cuDeviceGet", byref(self._device), c_int(device))
            self.call("cuDevicePrimaryCtxRetain", byref(self._context), self._device)
        except LaunchFailed as error:
            raise DriverUnavailable(f"GPU {device} cannot be used: {error.message}") from error
        self.make_current()

    def make_current(self) -> None:
        """Needed once in each thread that launches."""
        self.call("cuCtxSetCurrent", self._context)

    @property
    def architecture(self) -> str:
        """Such as `sm_90`."""
        return f"sm_{self._attribute(_CAPABILITY_MAJOR)}{self._attribute(_CAPABILITY_MINOR)}"

    @property
    def processors(self) -> int:
        """How many streaming multiprocessors there are."""
        return self._attribute(_PROCESSORS)

    @property
    def shared_bytes(self) -> int:
        """The most shared memory that a block can have."""
        return self._attribute(_SHARED_BYTES)

    def load(self, cubin: bytes) -> CudaModule:
        """The kernels of a cubin that was made for this architecture."""
        module = c_void_p()
        self.call("cuModuleLoadData", byref(module), c_char_p(cubin))
        return CudaModule(self, module)

    def call(self, function: str, *arguments: object) -> None:
        """A function of the driver API; raises `LaunchFailed` unless it succeeds."""
        status = getattr(self._cuda, function)(*arguments)
        if status:
            name = c_char_p()
            self._cuda.cuGetErrorName(c_int(status), byref(name))
            text = name.value.decode() if name.value else f"error {status}"
            raise LaunchFailed(f"{function} failed with {text}.")

    def _attribute(self, attribute: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), c_int(attribute), self._device)
        return value.value


class CudaModule:
    """Kernels in a GPU's memory, for as long as the process lives."""

    def __init__(self, driver: Driver, handle: c_void_p) -> None:
        self._driver = driver
        self._handle = handle
        self._functions: dict[str, c_void_p] = {}
        self._allowed: dict[str, int] = {}

    def launch(
        self,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        stream: int = 0,
        overlap: bool = False,
    ) -> None:
        """See `KernelModule`."""
        function = self._function(kernel, shared_bytes)
        pointers = (c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))
        attribute = _LaunchAttribute(_OVERLAP_WITH_PREVIOUS, 0, (c_int * 16)(1))
        config = _LaunchConfig(
            (c_uint * 3)(*grid),
            (c_uint * 3)(*block),
            shared_bytes,
            c_void_p(stream),
            ctypes.pointer(attribute),
            1 if overlap else 0,
        )
        self._driver.call("cuLaunchKernelEx", byref(config), function, pointers, c_void_p(None))

    def _function(self, kernel: str, shared_bytes: int) -> c_void_p:
        function = self._functions.get(kernel)
        if function is None:
            function = c_void_p()
            self._driver.call(
                "cuModuleGetFunction", byref(function), self._handle, c_char_p(kernel.encode())
            )
            self._functions[kernel] = function
        if shared_bytes > self._allowed.get(kernel, _SHARED_WITHOUT_ASKING):
            self._driver.call(
                "cuFuncSetAttribute", function, c_int(_MAX_DYNAMIC_SHARED), c_int(shared_bytes)
            )
            self._allowed[kernel] = shared_bytes
        return function
