"""Launch kernels through the NVIDIA driver, without other packages or a compiler."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p
from pathlib import Path

from ..errors import DriverUnavailable, LaunchFailed

Argument = ctypes.c_void_p | ctypes.c_int | ctypes.c_longlong | ctypes.c_float
Grid = tuple[int, int, int]

# Names of the driver API: CUdevice_attribute, CUfunction_attribute, CUlaunchAttributeID.
_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _PROCESSORS = 75, 76, 16
_MAX_DYNAMIC_SHARED, _SHARED_CARVEOUT = 8, 9
_OVERLAP_WITH_PREVIOUS = 6


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_int * 16))


# CUlaunchConfig: grid, block, bytes of shared memory, stream, attributes and their number.
_CONFIG = struct.Struct("@7IPPI4x")
_MOST_ARGUMENTS = 128
_ARGUMENTS = tuple(struct.Struct(f"@{count}P") for count in range(_MOST_ARGUMENTS + 1))


_Launch = Callable[[c_void_p, c_void_p, c_void_p, None], int]


class _LaunchMemory(threading.local):
    """The structures that the driver reads during a launch, allocated once a thread."""

    def __init__(self, launch: _Launch) -> None:
        self.launch = launch
        self.config = ctypes.create_string_buffer(_CONFIG.size)
        self.pointers = ctypes.create_string_buffer(_MOST_ARGUMENTS * ctypes.sizeof(c_void_p))
        self.config_address = c_void_p(ctypes.addressof(self.config))
        self.pointers_address = c_void_p(ctypes.addressof(self.pointers))
        self.overlap = _LaunchAttribute(_OVERLAP_WITH_PREVIOUS, 0, (c_int * 16)(1))
        self.overlap_address = ctypes.addressof(self.overlap)


class CudaDriver:
    """The driver library and one device with its primary context, which torch uses, too.

    Raises `DriverUnavailable` if there is no driver or no such device.
    """

    def __init__(
        self, device: int = 0, library: Path | None = None, *, shared_carveout: int | None = 100
    ) -> None:
        """All kernels prefer `shared_carveout` percent of the L1 cache as shared memory.

        If neighbours in a graph differ, the GPU changes it between them, which takes about 4 µs
        (measured by exllamav3). None leaves it to the driver.
        """
        self._shared_carveout = shared_carveout
        default = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            self._cuda = ctypes.CDLL(str(library or default))
            holding = ctypes.PyDLL(str(library or default))
        except OSError as error:
            raise DriverUnavailable(
                "There is no NVIDIA driver.", hint="Install the driver of your GPU."
            ) from error
        self._launch_holding_gil: _Launch = holding.cuLaunchKernelEx
        # A launch waits while the GPU's queue is full, and other threads must go on meanwhile.
        self.launch_memory = _LaunchMemory(self._cuda.cuLaunchKernelEx)
        self.ordinal = device
        self._device, self._context = c_int(), c_void_p()
        try:
            self.call("cuInit", c_uint(0))
            self.call("cuDeviceGet", byref(self._device), c_int(device))
            self.call("cuDevicePrimaryCtxRetain", byref(self._context), self._device)
        except LaunchFailed as error:
            raise DriverUnavailable(f"GPU {device} cannot be used: {error.message}") from error
        self.make_current()

    def make_current(self) -> None:
        """Make the context current; needed once in each thread that launches."""
        self.call("cuCtxSetCurrent", self._context)

    @contextmanager
    def holding_gil(self) -> Generator[None]:
        """Launch from this thread without releasing the GIL, while a graph is recorded.

        Such launches take microseconds and never wait for the GPU; to get the GIL back from another
        thread may take milliseconds.
        """
        memory = self.launch_memory
        releasing, memory.launch = memory.launch, self._launch_holding_gil
        try:
            yield
        finally:
            memory.launch = releasing

    @property
    def architecture(self) -> str:
        """The architecture, such as `sm_90`."""
        return f"sm_{self._attribute(_CAPABILITY_MAJOR)}{self._attribute(_CAPABILITY_MINOR)}"

    @property
    def num_sms(self) -> int:
        """The number of streaming multiprocessors."""
        return self._attribute(_PROCESSORS)

    def load(self, cubin: bytes) -> CudaModule:
        """The kernels of a cubin for this architecture."""
        self.make_current()
        module = c_void_p()
        try:
            self.call("cuModuleLoadData", byref(module), c_char_p(cubin))
        except LaunchFailed as error:
            hint = "Update the driver: it may be older than what the kernels were compiled for."
            raise LaunchFailed(error.message, hint=hint) from error
        return CudaModule(self, module)

    def configure(self, function: c_void_p) -> None:
        """Set what holds for all launches of a kernel."""
        if self._shared_carveout is not None:
            self.call(
                "cuFuncSetAttribute",
                function,
                c_int(_SHARED_CARVEOUT),
                c_int(self._shared_carveout),
            )

    def call(self, function: str, *arguments: object) -> None:
        """Call a function of the driver API; raises `LaunchFailed` unless it succeeds."""
        status = getattr(self._cuda, function)(*arguments)
        if status:
            raise LaunchFailed(f"{function} failed with {self.error_name(status)}.")

    def error_name(self, status: int) -> str:
        """The driver's name of an error code."""
        name = c_char_p()
        self._cuda.cuGetErrorName(c_int(status), byref(name))
        return name.value.decode() if name.value else f"error {status}"

    def _attribute(self, attribute: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), c_int(attribute), self._device)
        return value.value


class _Function:
    """A kernel of a module, and the dynamic shared memory that was requested for it.

    Without a request it has 48 KB, less its static shared memory, whose size is unknown here.
    """

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle
        self.shared_bytes = 0


class CudaModule:
    """Kernels in a GPU's memory, until the process ends."""

    def __init__(self, driver: CudaDriver, handle: c_void_p) -> None:
        self._driver = driver
        self._handle = handle
        self._functions: dict[str, _Function] = {}

    def prepare(self) -> Sequence[str]:
        """Load all kernels to the GPU now; returns their names.

        The driver would load a kernel at its first launch, which waits for the GPU and is not
        allowed while a graph is recorded.
        """
        count = c_uint()
        self._driver.call("cuModuleGetFunctionCount", byref(count), self._handle)
        handles = (c_void_p * count.value)()
        self._driver.call("cuModuleEnumerateFunctions", handles, count, self._handle)
        for handle in handles:
            name = c_char_p()
            self._driver.call("cuFuncGetName", byref(name), c_void_p(handle))
            self._driver.call("cuFuncLoad", c_void_p(handle))
            self._driver.configure(c_void_p(handle))
            if name.value is not None:
                self._functions.setdefault(name.value.decode(), _Function(c_void_p(handle)))
        return sorted(self._functions)

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
        """Launch `kernel` with arguments in the order of its parameters.

        `overlap` lets it begin before the previous one in `stream` ends, on sm_90 and later; the
        kernel itself then waits before it reads what that one writes. Raises `LaunchFailed`.
        """
        function = self._functions.get(kernel) or self._find(kernel)
        if shared_bytes > function.shared_bytes:
            self._allow(function, shared_bytes)
        driver = self._driver
        memory = driver.launch_memory
        attributes = memory.overlap_address if overlap else 0
        pointers = map(ctypes.addressof, arguments)
        _ARGUMENTS[len(arguments)].pack_into(memory.pointers, 0, *pointers)
        _CONFIG.pack_into(
            memory.config, 0, *grid, *block, shared_bytes, stream, attributes, bool(overlap)
        )
        status = memory.launch(
            memory.config_address, function.handle, memory.pointers_address, None
        )
        if status:
            raise LaunchFailed(f"{kernel} did not start: {driver.error_name(status)}.")

    def _find(self, kernel: str) -> _Function:
        handle = c_void_p()
        self._driver.call(
            "cuModuleGetFunction", byref(handle), self._handle, c_char_p(kernel.encode())
        )
        self._driver.configure(handle)
        function = self._functions[kernel] = _Function(handle)
        return function

    def _allow(self, function: _Function, shared_bytes: int) -> None:
        self._driver.call(
            "cuFuncSetAttribute", function.handle, c_int(_MAX_DYNAMIC_SHARED), c_int(shared_bytes)
        )
        function.shared_bytes = shared_bytes
