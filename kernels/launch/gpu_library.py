"""A `KernelLibrary` whose kernels run on an NVIDIA GPU."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from ctypes import c_void_p
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch

from ..build.compiled_kernel import KernelVariant
from ..build.cubin_finder import CubinFinder
from ..build.kernel_source import NO_DEFINES
from ..errors import LaunchFailed
from .cuda_driver import Argument, CudaDriver, CudaModule, Grid

_REPORT_EVERY = 4.0
_LONGEST_COMPILATION = 180.0
"""Seconds of one kernel, on a slow and busy machine."""
_NOTHING: Mapping[str, Mapping[str, str]] = {}


class _Variant(NamedTuple):
    """The arguments of a compiled kernel's launch, ready to use."""

    module: CudaModule
    kernel: str
    block: Grid
    shared_bytes: int
    hidden: tuple[c_void_p, ...]
    overlap: bool


class GPULibrary:
    """Launches kernels on torch's current stream of a GPU, from the cubins of `finder`.

    Also a `TritonLibrary`. `defines` has the macros of sources that need some; with `overlap=False`
    no kernel begins before the previous one ends; `stream` replaces torch's current stream.
    """

    may_overlap: ClassVar[bool] = True
    """Unset to let no kernel of any library begin early: is a fault due to that?"""

    def __init__(
        self,
        driver: CudaDriver,
        finder: CubinFinder,
        *,
        defines: Mapping[str, Mapping[str, str]] = _NOTHING,
        overlap: bool = True,
        stream: Callable[[], int] | None = None,
    ) -> None:
        self.architecture = driver.architecture
        self.num_sms = driver.num_sms
        self._driver = driver
        self._finder = finder
        self._defines = defines
        self._stream = stream or current_stream(driver.ordinal)
        newer = int(self.architecture.removeprefix("sm_")) >= 90
        self._can_overlap = overlap and self.may_overlap and newer
        self._modules: dict[str, CudaModule] = {}
        self._variants: dict[str, _Variant] = {}

    @classmethod
    def open(cls, cache: Path, *, device: int = 0) -> GPULibrary:
        """A library for a GPU of torch; compiled kernels are cached in the folder `cache`.

        Raises `DriverUnavailable`.
        """
        torch.cuda.init()
        driver = CudaDriver(device)
        return cls(driver, CubinFinder(driver.architecture, cache))

    def prepare(
        self,
        sources: Sequence[str],
        variants: Sequence[KernelVariant] = (),
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Find, compile and load all kernels that a model needs, before it is ready.

        No launch of them waits afterwards. `progress` is called with the number done and the number
        of all, every few seconds while the compiler may be at work. Raises `CompileFailed`, or
        `LaunchFailed` if the driver rejects one.
        """
        # The compiler releases the GIL, so threads are enough.
        pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="compile")
        try:
            jobs = [
                pool.submit(self._found, name)
                for name in dict.fromkeys(sources)
                if name not in self._modules
            ]
            jobs += [
                pool.submit(self._found_variant, variant)
                for name, variant in {each.name: each for each in variants}.items()
                if name not in self._variants
            ]
            done, pending, loaded_at = 0, set(jobs), time.monotonic()
            while pending:
                ended, pending = wait(pending, _REPORT_EVERY, FIRST_COMPLETED)
                for job in ended:
                    job.result()()
                    done, loaded_at = done + 1, time.monotonic()
                    progress(done, len(jobs))
                if not ended and time.monotonic() - loaded_at < _LONGEST_COMPILATION:
                    progress(done, len(jobs))
        finally:
            pool.shutdown(cancel_futures=True)

    def launch(
        self,
        source: str,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        overlap: bool = True,
    ) -> None:
        """See `KernelLibrary`; a source that was not passed to `prepare` is loaded now."""
        module = self._modules.get(source)
        if module is None:
            self._found(source)()
            module = self._modules[source]
        module.launch(
            kernel,
            grid,
            block,
            arguments,
            shared_bytes=shared_bytes,
            stream=self._stream(),
            overlap=overlap and self._can_overlap,
        )

    def launch_compiled(self, name: str, grid: Grid, arguments: Sequence[Argument]) -> None:
        """See `TritonLibrary`."""
        variant = self._variants.get(name)
        if variant is None:
            raise LaunchFailed(f"The kernel {name} was not prepared.")
        variant.module.launch(
            variant.kernel,
            grid,
            variant.block,
            (*arguments, *variant.hidden),
            shared_bytes=variant.shared_bytes,
            stream=self._stream(),
            overlap=variant.overlap,
        )

    def recording(self) -> AbstractContextManager[None]:
        """While this thread records a graph: its launches hold the GIL."""
        return self._driver.holding_gil()

    def _found(self, source: str) -> Callable[[], None]:
        cubin = self._finder.cubin(source, self._defines.get(source, NO_DEFINES))

        def load() -> None:
            self._modules[source] = self._loaded(cubin)

        return load

    def _found_variant(self, variant: KernelVariant) -> Callable[[], None]:
        compiled = self._finder.variant(variant)

        def load() -> None:
            module = self._loaded(compiled.cubin)
            self._variants[variant.name] = _Variant(
                module,
                compiled.kernel,
                (compiled.threads, 1, 1),
                compiled.shared_bytes,
                (c_void_p(),) * compiled.hidden_pointers,
                compiled.overlap and self._can_overlap,
            )

        return load

    def _loaded(self, cubin: bytes) -> CudaModule:
        module = self._driver.load(cubin)
        module.prepare()
        return module


def current_stream(device: int) -> Callable[[], int]:
    """A function that returns the handle of torch's current stream on a GPU.

    torch's public function makes an object on every call, which takes longer than a launch.
    """
    native = importlib.import_module("torch._C")
    raw: Callable[[int], int] | None = getattr(native, "_cuda_getCurrentRawStream", None)
    if raw is None:
        return lambda: torch.cuda.current_stream(device).cuda_stream
    return partial(raw, device)
