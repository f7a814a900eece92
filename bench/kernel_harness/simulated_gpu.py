"""A GPU whose kernels run on the CPU, in order, and which fails where a test wants it."""

from __future__ import annotations

import ctypes
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int, c_uint, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

import torch
from kernel_harness.checked_driver import CheckedDriver
from kernel_harness.host_library import CPUKernelLibrary
from kernel_harness.interpreted_library import InterpretedTritonLibrary

from ingle.kernels.attention.attention_variant import AttentionVariant
from ingle.kernels.launch.cuda_driver import Argument, Grid

STREAM = 0xABCDEF0123
"""The one stream that the fake driver accepts beside the default one."""
MEMORY = 4 << 30

Kind = Literal["call", "kernel", "allocation"]
_SUCCESS, _ILLEGAL_ADDRESS, _NOT_PERMITTED, _LAUNCH_FAILED = 0, 700, 900, 719
_NOT_CAPTURED = ("cuModuleLoadData", "cuFuncLoad")
_TEXTS = {
    1: "invalid argument",
    2: "out of memory",
    46: "CUDA-capable device(s) is/are busy or unavailable",
    214: "uncorrectable ECC error encountered",
    _ILLEGAL_ADDRESS: "an illegal memory access was encountered",
    701: "too many resources requested for launch",
    _LAUNCH_FAILED: "unspecified launch failure",
    801: "operation not supported",
    _NOT_PERMITTED: "operation not permitted when stream is capturing",
    999: "unknown error",
}


@dataclass(frozen=True)
class Fault:
    """What happens at a point: a call returns `code`, and all later ones if it `lasts`.

    At a kernel, it and all later ones do nothing; the next call that waits returns `code`, or never
    returns if the kernel `hangs`. At an allocation, memory is out.
    """

    code: int = _ILLEGAL_ADDRESS
    lasts: bool = False
    hangs: bool = False


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("seed", c_uint),
        ("threads", c_uint),
    )


_ON_CALL = ctypes.CFUNCTYPE(c_int, c_char_p)
_ON_LAUNCH = ctypes.CFUNCTYPE(c_int, c_char_p, c_char_p, POINTER(_Launch), POINTER(c_void_p))
_SCALARS: Mapping[str, type[Argument]] = {"i32": c_int, "fp32": ctypes.c_float}


@dataclass
class Graph:
    """Captured work, and the tensors that its addresses point into."""

    nodes: list[tuple[str, Callable[[], object]]] = field(
        default_factory=list[tuple[str, Callable[[], object]]]
    )
    tensors: list[torch.Tensor] = field(default_factory=list[torch.Tensor])


class SimulatedGPU:
    """The device behind the fake driver and behind the stand-ins for torch's CUDA functions.

    Points are counted by kind: calls of the driver, kernels (also each of a graph), allocations.
    `plan` is asked at each for its fault; `on_hang` is called instead of waiting forever. `calls`
    counts those of the driver by name.
    """

    def __init__(
        self, fake_driver: Path, folder: Path, variants: Sequence[AttentionVariant]
    ) -> None:
        """Kernels compiled by g++ are cached in `folder`; `variants` are interpreted."""
        self.plan: Callable[[Kind, int, str], Fault | None] = lambda kind, number, name: None
        self.on_hang: Callable[[], None] | None = None
        self.points = Counter[Kind]()
        self.calls = Counter[str]()
        self.capturing: Graph | None = None
        self.capability = 9, 0
        self.driver: CheckedDriver | None = None
        self._lost = _SUCCESS
        self._broken: Fault | None = None
        self._library = fake_driver
        self._kernels = CPUKernelLibrary(folder)
        self._attention = InterpretedTritonLibrary(variants)
        self._variants = {variant.name: variant for variant in variants}
        # ctypes objects have to live as long as the library may call them.
        self._on_call = _ON_CALL(self._called)
        self._on_launch = _ON_LAUNCH(self._launched)
        ctypes.CDLL(str(fake_driver)).fake_intercept(self._on_call, self._on_launch)

    def open_driver(self, device: int) -> CheckedDriver:
        """In place of `CudaDriver`."""
        self.driver = CheckedDriver(device, self._library)
        self._attention.architecture = self.driver.architecture
        self.capability = divmod(int(self.driver.architecture.removeprefix("sm_")), 10)
        return self.driver

    def call(self, name: str) -> int:
        """Count a call of the driver; returns its error code."""
        if self.capturing is not None and name in _NOT_CAPTURED:
            return _NOT_PERMITTED
        self.calls[name] += 1
        if self._lost:
            return self._lost
        fault = self._point("call", name)
        if fault is None:
            return _SUCCESS
        if fault.lasts:
            self._lost = fault.code
        return fault.code

    def check(self, name: str) -> None:
        """A call on behalf of torch, which raises its error."""
        code = self.call(name)
        if code:
            _raise(code)

    def kernel(self, name: str, run: Callable[[], object]) -> None:
        """Run a kernel, or record it in the graph that is captured."""
        if self.capturing is not None:
            self.capturing.nodes.append((name, run))
        elif self._broken is None:
            self._broken = self._point("kernel", name)
            if self._broken is None:
                run()

    def allocate(self, name: str) -> None:
        """Count an allocation; raises `torch.OutOfMemoryError`."""
        if self._point("allocation", name) is not None:
            raise torch.OutOfMemoryError("CUDA out of memory. (simulated)")

    def replay(self, graph: Graph) -> None:
        """Run the kernels of a captured graph."""
        self.check("cuGraphLaunch")
        with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
            for name, run in graph.nodes:
                self.kernel(name, run)

    def synchronize(self, *, ended: bool = False) -> None:
        """Wait for all kernels, or for those that have `ended`.

        Raises `torch.AcceleratorError` if a kernel failed.
        """
        if self.capturing is not None:
            _raise(_NOT_PERMITTED)
        self.check("cuStreamSynchronize")
        broken = self._broken
        if broken is None or (broken.hangs and ended):
            return
        if broken.hangs:
            self._hang()
        self._lost = broken.code
        _raise(broken.code)

    @property
    def works(self) -> bool:
        """Whether kernels still do anything."""
        return self._broken is None

    def _hang(self) -> NoReturn:
        if self.on_hang is not None:
            self.on_hang()
        while True:  # as the driver waits: busy, and without the GIL
            time.sleep(0)

    def _point(self, kind: Kind, name: str) -> Fault | None:
        self.points[kind] += 1
        return self.plan(kind, self.points[kind], name)

    def _called(self, function: bytes) -> int:
        return self.call(function.decode())

    def _launched(self, module: bytes, kernel: bytes, launch: Any, parameters: Any) -> int:
        """Called by the fake driver with a checked launch, whose arguments are copied."""
        try:
            name, function = module.decode(), kernel.decode()
            assert self.driver is not None
            sizes = self.driver.facts[name][function].parameters
            copies = [
                ctypes.create_string_buffer(ctypes.string_at(parameters[place], size), size)
                for place, size in sorted(sizes.items())
            ]
            how = launch.contents
            grid, block = tuple(how.grid), tuple(how.block)
            shared_bytes = int(how.shared_bytes)
            self.kernel(
                function, lambda: self._run(name, function, grid, block, copies, shared_bytes)
            )
        except Exception:  # nothing may leave a callback
            traceback.print_exc()
            return _LAUNCH_FAILED
        return _SUCCESS

    def _run(
        self, module: str, kernel: str, grid: Grid, block: Grid, copies: list[Any], shared: int
    ) -> None:
        variant = self._variants.get(module)
        if variant is None:
            arguments = cast("list[Argument]", copies)
            self._kernels.launch(module, kernel, grid, block, arguments, shared_bytes=shared)
            return
        kinds = variant.parameters.values()
        typed = [
            _SCALARS.get(kind, c_void_p).from_buffer(copy)
            for kind, copy in zip(kinds, copies, strict=False)  # hidden pointers follow
        ]
        self._attention.launch_compiled(module, grid, typed)


def _raise(code: int) -> NoReturn:
    raise torch.AcceleratorError(f"CUDA error: {_TEXTS[code]}")
