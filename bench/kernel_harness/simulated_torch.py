"""Stand-ins for torch's CUDA device: tensors on it lie in CPU memory, and say that they do not."""

# Every function of torch passes here, with arguments of any type.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from kernel_harness.simulated_gpu import MEMORY, STREAM, Graph, SimulatedGPU
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

CUDA = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_WAITING = frozenset(
    ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "equal", "allclose")
)
_EMPTY = frozenset(("empty", "empty_like", "new_empty", "empty_strided"))
_STALE = 12345.0
_IN_PLACE = frozenset(
    ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__iand__")
)
_BETWEEN_DEVICES = frozenset(("copy_", "to", "cpu", "__setitem__", "__getitem__"))


class SimulatedTensor(torch.Tensor):
    """A tensor on the simulated GPU."""

    @property
    def device(self) -> torch.device:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The GPU."""
        return CUDA


class SimulatedTorch(TorchFunctionMode):
    """Has functions of torch compute on the CPU for tensors of the simulated GPU.

    Reports tensors of two devices in one operation, and waiting during a capture, as torch does.
    """

    def __init__(self, gpu: SimulatedGPU) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Called for each function of torch on this thread."""
        with torch._C.DisableTorchFunction():
            return self._apply(func, list(args), dict(kwargs or {}))

    def _apply(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        if name == "pin_memory":
            return args[0]
        kwargs.pop("pin_memory", None)
        target = _take_device(name, args, kwargs)
        inputs = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        on_gpu = [isinstance(each, SimulatedTensor) for each in inputs]
        if not any(on_gpu) and target != CUDA:
            return func(*args, **kwargs)
        if name in ("cpu", "numpy") or (name == "to" and target == _CPU and any(on_gpu)):
            return self._to_host(name, func, args, kwargs)
        _check_devices(name, inputs, on_gpu)
        if name in _WAITING:
            self._gpu.synchronize()
            return func(*args, **kwargs)
        if "out" in kwargs or _is_in_place(name):
            self._gpu.check(name)
            self._gpu.kernel(name, lambda: func(*args, **kwargs))
            if name == "copy_" and not on_gpu[0] and not kwargs.get("non_blocking"):
                self._gpu.synchronize()
            return kwargs.get("out", args[0])
        return self._compute(name, lambda: func(*args, **kwargs), inputs, moved=not any(on_gpu))

    def _compute(
        self, name: str, run: Callable[[], Any], inputs: list[torch.Tensor], *, moved: bool
    ) -> Any:
        """The result of an operation on the GPU; memory `moved` there is never the host's."""
        try:
            result = run()
        except IndexError:
            if not self._gpu.works:  # what no kernel wrote is no index; a GPU reports it later
                self._gpu.synchronize()
            raise
        if not isinstance(result, torch.Tensor):
            if isinstance(result, tuple | list):
                parts = [self._made(name, part, inputs) for part in result]
                return type(result)(parts) if type(result) in (tuple, list) else tuple(parts)
            return result
        if moved and inputs and _aliases(result, inputs):
            result = result.clone()
        return self._made(name, result, inputs, run)

    def _made(
        self,
        name: str,
        result: Any,
        inputs: list[torch.Tensor],
        run: Callable[[], Any] | None = None,
    ) -> Any:
        if not isinstance(result, torch.Tensor):
            return result
        if not _aliases(result, inputs):
            self._new(name, result, run)
        return result.as_subclass(SimulatedTensor)

    def _new(self, name: str, result: torch.Tensor, run: Callable[[], Any] | None) -> None:
        """Count the allocation of a result, and the kernel that computes it."""
        self._gpu.allocate(name)
        graph = self._gpu.capturing
        if graph is not None:
            graph.tensors.append(result)
        if result.is_floating_point() and (graph is not None or name in _EMPTY):
            # What nothing writes is never the same in a step and in its replay.
            stale = min(_STALE, torch.finfo(result.dtype).max)
            result.fill_(stale if graph is None else torch.nan)
        if name in _EMPTY:
            return
        assert graph is None or run is not None, f"{name} has several results"
        self._gpu.check(name)

        def again() -> None:
            if graph is not None and run is not None:
                result.copy_(run())

        self._gpu.kernel(name, again)
        if not self._gpu.works:
            result.zero_()

    def _to_host(
        self, name: str, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if name == "numpy":
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        self._gpu.kernel(name, lambda: None)
        self._gpu.synchronize()
        return func(*args, **kwargs).as_subclass(torch.Tensor).clone()


def _take_device(name: str, args: list[Any], kwargs: dict[str, Any]) -> torch.device | None:
    """The device that a call names, which becomes the CPU."""
    found = kwargs.get("device")
    if found is not None:
        kwargs["device"] = _CPU
    elif name == "to":
        for place, each in enumerate(args[1:], 1):
            if isinstance(each, torch.device | str):
                found, args[place] = each, _CPU
    if found is None:
        return None
    return CUDA if torch.device(found).type == "cuda" else _CPU


def _is_in_place(name: str) -> bool:
    return name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))


def _aliases(result: torch.Tensor, inputs: list[torch.Tensor]) -> bool:
    storage = result.untyped_storage().data_ptr()
    return any(each.untyped_storage().data_ptr() == storage for each in inputs)


def _check_devices(name: str, inputs: list[torch.Tensor], on_gpu: list[bool]) -> None:
    if name in _BETWEEN_DEVICES or all(on_gpu):
        return
    for tensor, is_there in zip(inputs, on_gpu, strict=True):
        if not is_there and tensor.dim():
            raise RuntimeError(f"{name}: expected all tensors on cuda:0, found one on the CPU")


class _Stream:
    """All work is in order, whatever its stream."""

    cuda_stream = STREAM

    def __init__(self, device: object = None) -> None:
        pass

    def wait_stream(self, stream: object) -> None:
        pass


def _event(gpu: SimulatedGPU) -> type:
    class Event:
        def __init__(self, **_: object) -> None:
            self._ended = True

        def record(self, stream: object = None) -> None:
            gpu.check("cuEventRecord")
            self._ended = gpu.works

        def synchronize(self) -> None:
            gpu.synchronize(ended=self._ended)

    return Event


def _cuda_graph(gpu: SimulatedGPU) -> type:
    class CUDAGraph:
        def __init__(self) -> None:
            self.captured = Graph()

        def capture_begin(self, pool: object, *, capture_error_mode: str) -> None:
            gpu.check("cuStreamBeginCapture")
            gpu.capturing = self.captured

        def capture_end(self) -> None:
            gpu.capturing = None
            gpu.check("cuStreamEndCapture")
            gpu.check("cuGraphInstantiate")

        def replay(self) -> None:
            gpu.replay(self.captured)

    return CUDAGraph


@contextmanager
def _on_stream(stream: object) -> Iterator[None]:
    yield


class _Generator:
    """`torch.Generator` on either device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return torch._C.Generator()


@contextmanager
def simulated_cuda(gpu: SimulatedGPU) -> Generator[None]:
    """Torch with the simulated GPU, on this thread; its functions are replaced on all."""

    functions: dict[str, Any] = {
        "init": lambda: None,
        "is_available": lambda: True,
        "is_bf16_supported": lambda: True,
        "get_device_name": lambda device=0: "Simulated GPU",
        "get_device_capability": lambda device=0: gpu.capability,
        "graph_pool_handle": lambda: (0, 1),
        "Stream": _Stream,
        "current_stream": lambda device=0: _Stream(),
        "stream": _on_stream,
        "Event": _event(gpu),
        "CUDAGraph": _cuda_graph(gpu),
        "synchronize": lambda device=0: gpu.synchronize(),
        "memory_allocated": lambda device=0: 0,
        "memory_reserved": lambda device=0: 0,
        "max_memory_allocated": lambda device=0: MEMORY // 16,
        "reset_peak_memory_stats": lambda device=0: None,
        "empty_cache": lambda: None,
        "mem_get_info": lambda device=0: (MEMORY, MEMORY),
    }
    with ExitStack() as undo:
        for name, function in functions.items():
            undo.enter_context(replaced(torch.cuda, name, function))
        undo.enter_context(replaced(torch._C, "_cuda_getCurrentRawStream", lambda device: STREAM))
        undo.enter_context(replaced(torch, "Generator", _Generator))
        undo.enter_context(SimulatedTorch(gpu))
        yield


@contextmanager
def replaced(place: Any, name: str, value: object) -> Generator[None]:
    """Set an attribute, and restore it afterwards."""
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)
