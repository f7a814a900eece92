"""Shared state of the GPU measurements: the device, its kernels, and a clock."""

from __future__ import annotations

import importlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from gpu.fake_driver import build_fake_driver, fake_gpu_library
from kernel_harness.host_build import HostModule, build_host_library

from ingle.kernels.attention.attention_variant import AttentionVariant
from ingle.kernels.attention.triton_build import CompilableAttention
from ingle.kernels.build.cubin_finder import CubinFinder
from ingle.kernels.build.kernel_source import NO_DEFINES, kernel_source, kernel_sources
from ingle.kernels.launch.cuda_driver import CudaDriver
from ingle.kernels.launch.gpu_library import GPULibrary
from ingle.kernels.launch.kernel_library import KernelLibrary, TritonLibrary
from ingle.kernels.matmul.quantized_gemv import QuantizedGemv

# Measured weights rotate among so many bytes, several times every GPU's L2.
_COLD_BYTES = 512 << 20


@dataclass
class Skipped(Exception):
    """A part, or some of it, that cannot run here, and why."""

    reason: str


class Session:
    """One device with its kernels; `on_cpu` runs these on a fake driver.

    `seconds` is how long the part may take. With `overlap=False` no kernel begins before the
    previous one has ended, and no step before the tokens of the previous one are known.
    """

    def __init__(
        self,
        *,
        on_cpu: bool = False,
        seconds: float = 600,
        folder: Path | None = None,
        overlap: bool = True,
    ):
        self.on_cpu = on_cpu
        self.overlap = GPULibrary.may_overlap = overlap  # models open their own libraries
        self._deadline = time.monotonic() + seconds
        self.folder = folder or Path(tempfile.gettempdir()) / f"ingle-kernels-{os.getuid()}"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._is_compiled = False
        self._fake_driver: Path | None = None
        self.device = torch.device("cpu" if on_cpu else "cuda")
        if not on_cpu:
            torch.zeros(1, device=self.device)  # its context comes first, and the driver shares it

    @cached_property
    def driver(self) -> CudaDriver:
        """The GPU; raises `Skipped` on a CPU."""
        if self.on_cpu:
            raise Skipped("it needs a GPU")
        return CudaDriver()

    @property
    def num_sms(self) -> int:
        """Streaming multiprocessors; on a CPU as many as an H200 has."""
        return 132 if self.on_cpu else self.driver.num_sms

    @property
    def seconds_left(self) -> float:
        """Until the part has to end."""
        return self._deadline - time.monotonic()

    @property
    def free_memory(self) -> int:
        """Bytes of the GPU; on a CPU, where everything is small, as much as any part asks for."""
        return 1 << 40 if self.on_cpu else torch.cuda.mem_get_info()[0]

    def synchronize(self) -> None:
        """Wait for the GPU."""
        if not self.on_cpu:
            torch.cuda.synchronize()

    @property
    def stream(self) -> int:
        """Torch's current stream, as launches want it."""
        return 0 if self.on_cpu else torch.cuda.current_stream().cuda_stream

    def twin(self, source: str) -> HostModule:
        """The same kernels on the CPU, to compare with."""
        return HostModule(build_host_library(source, self.folder))

    def compile(self, wanted: Sequence[tuple[str, Mapping[str, str]]]) -> float:
        """Compile all of these at once, so that later calls find them; gives the seconds."""
        began = time.monotonic()
        if not self.on_cpu:
            with ThreadPoolExecutor() as pool:
                # Kernels that do not compile fail only when launched.
                wait([pool.submit(self._finder.cubin, name, each) for name, each in wanted])
        return time.monotonic() - began

    def library(
        self,
        defines: Mapping[str, str] = NO_DEFINES,
        *,
        overlap: bool = True,
        carveout: bool = True,
    ) -> KernelLibrary:
        """All kernels on this device; `defines` are for sources of products.

        `overlap=False` lets no kernel begin before the one before it has ended, `carveout=False`
        leaves the share of shared memory to the driver.
        """
        products = [name for name in kernel_sources() if "GEMV_VARIANTS" in kernel_source(name)]
        chosen = dict.fromkeys(products, defines)
        if self.on_cpu:
            if self._fake_driver is None:
                self._fake_driver = build_fake_driver(Path(tempfile.mkdtemp(dir=self.folder)))
            return fake_gpu_library(
                self.folder, driver=self._fake_driver, defines=chosen, overlap=overlap
            )
        if not self._is_compiled and not defines:
            self.compile([(name, NO_DEFINES) for name in kernel_sources()])
            self._is_compiled = True
        driver = self.driver if carveout else CudaDriver(shared_carveout=None)
        return GPULibrary(driver, self._finder, defines=chosen, overlap=overlap)

    def compiled(self, variants: Sequence[AttentionVariant]) -> TritonLibrary:
        """Attention kernels on this device; on a CPU in Triton's interpreter."""
        if self.on_cpu:
            # Imported here, since it may be missing on a machine with a GPU.
            interpreted: Any = importlib.import_module("kernel_harness.interpreted_library")
            return interpreted.InterpretedTritonLibrary(variants)
        library = GPULibrary(self.driver, self._finder)
        library.prepare([], [CompilableAttention(variant) for variant in variants])
        return library

    def gemv(
        self,
        defines: Mapping[str, str] = NO_DEFINES,
        *,
        overlap: bool = True,
        carveout: bool = True,
    ) -> QuantizedGemv:
        """The operation on this device's kernels, see `library`."""
        return QuantizedGemv(self.library(defines, overlap=overlap, carveout=carveout))

    def time(self, launches: Sequence[Callable[[], object]], *, repeats: int = 7) -> float:
        """Seconds that one of `launches` takes: the median over replays of a graph of all.

        They should differ in the memory they read, or it is the cache that is measured. On a CPU
        the first two run once, which measures nothing.
        """
        if self.on_cpu:
            return self._rehearse(launches[:2])
        graph = self._captured(launches)
        for _ in range(2):
            graph.replay()
        times: list[float] = []
        for _ in range(repeats):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1000)
        return statistics.median(times) / len(launches)

    @cached_property
    def _finder(self) -> CubinFinder:
        return CubinFinder(self.driver.architecture, self.folder)

    @staticmethod
    def _rehearse(launches: Sequence[Callable[[], object]]) -> float:
        began = time.perf_counter()
        for launch in launches:
            launch()
        return (time.perf_counter() - began) / len(launches)

    @staticmethod
    def _captured(launches: Sequence[Callable[[], object]]) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            launches[0]()  # loads the kernel, which a capture does not allow
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for launch in launches:
                launch()
        return graph


def copies_for(bytes_each: int, *, least: int = 2, most: int = 256) -> int:
    """How many copies of a buffer it takes to read from memory rather than from a cache."""
    return max(least, min(most, -(-_COLD_BYTES // bytes_each)))
