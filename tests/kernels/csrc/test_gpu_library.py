"""The library of a real GPU, on a fake driver that runs its kernels on the CPU."""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Callable, Mapping
from ctypes import c_int, c_void_p
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from kernel_harness.host_build import build_host_library

from ingle.kernels.build.compiled_kernel import CompiledKernel, write_compiled_kernel
from ingle.kernels.build.cubin_finder import CubinFinder, prebuilt_path
from ingle.kernels.build.kernel_source import NO_DEFINES, kernel_source
from ingle.kernels.elementwise.activations import quantize_q8_reference
from ingle.kernels.errors import CompileFailed, LaunchFailed
from ingle.kernels.launch import gpu_library
from ingle.kernels.launch.cuda_driver import CudaDriver
from ingle.kernels.launch.gpu_library import GPULibrary, current_stream
from ingle.kernels.launch.kernel_library import KernelLibrary, TritonLibrary
from ingle.kernels.matmul.quantized_gemv import QuantizedGemv

SOURCES = ("quantize_q8.cuh", "conformance.cuh")
FOUR = (4, 1, 1)
# Called like a kernel of Triton's: with two hidden pointers.
TRITON_LIKE = """#include "portable.cuh"
extern "C" __global__ void add(int* y, int value, void* scratch, void* profile) {
  y[threadIdx.x] = scratch || profile ? -1 : value + int(blockDim.x);
}
EXPORT_KERNEL(add)
"""


@dataclass
class HostCompiler:
    """Compiles to what the fake driver takes for machine code, and counts its calls."""

    folder: Path
    version: str = "host-1"
    compiled: list[str] = field(default_factory=list[str])

    def compile(self, source: str, architecture: str) -> bytes:
        name = next(each for each in SOURCES if kernel_source(each) == source)
        self.compiled.append(f"{name} {architecture}")
        return str(build_host_library(name, self.folder)).encode()


@dataclass
class Variant:
    """A stand-in for a Triton kernel."""

    library: Path
    overlap: bool = False
    name: str = "add_v1"
    compiled: list[str] = field(default_factory=list[str])

    def source(self, architecture: str) -> str:
        return f"add for {architecture}"

    def compile(self, architecture: str) -> CompiledKernel:
        self.compiled.append(architecture)
        return self.compiled_kernel(architecture)

    def compiled_kernel(self, architecture: str) -> CompiledKernel:
        cubin, parameters = str(self.library).encode(), ("*i32", "i32")
        return CompiledKernel(
            self.name, architecture, cubin, "add", 4, 0, parameters, 2, self.overlap, "triton-0"
        )


@pytest.fixture
def compiler(build_folder: Path) -> HostCompiler:
    return HostCompiler(build_folder)


@pytest.fixture(scope="module")
def triton_like(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("triton")
    (folder / "add.cuh").write_text(TRITON_LIKE)
    return build_host_library(str(folder / "add.cuh"), folder)


@pytest.fixture
def variant(triton_like: Path) -> Variant:
    return Variant(triton_like)


MakeLibrary = Callable[..., GPULibrary]


@pytest.fixture
def make(fake: Path, tmp_path: Path, compiler: HostCompiler) -> MakeLibrary:
    def library(
        prebuilt: Path = tmp_path / "none",
        defines: Mapping[str, Mapping[str, str]] | None = None,
        overlap: bool = True,
    ) -> GPULibrary:
        driver = CudaDriver(library=fake)
        finder = CubinFinder(
            driver.architecture, tmp_path / "cache", prebuilt=prebuilt, compiler=lambda: compiler
        )
        return GPULibrary(
            driver, finder, defines=defines or {}, overlap=overlap, stream=lambda: 0xABCDEF0123
        )

    return library


def quantizes(library: GPULibrary) -> bool:
    """Check that a kernel of the library works."""
    x = torch.randn(2, 1024, generator=torch.Generator().manual_seed(0)).half()
    return torch.equal(QuantizedGemv(library).quantize(x), quantize_q8_reference(x))


def add(library: GPULibrary, value: int) -> list[int]:
    y = np.zeros(4, np.int32)
    library.launch_compiled("add_v1", (1, 1, 1), [c_void_p(y.ctypes.data), c_int(value)])
    return y.tolist()


def test_library_implements_both_interfaces(make: MakeLibrary) -> None:
    kernels: KernelLibrary = make()
    compiled: TritonLibrary = make()
    assert kernels.architecture == compiled.architecture == "sm_90"
    assert kernels.num_sms == compiled.num_sms == 132


def test_prepare_compiles_and_loads_all_kernels(
    make: MakeLibrary, compiler: HostCompiler, variant: Variant, fake: Path
) -> None:
    library, progress = make(), list[tuple[int, int]]()
    library.prepare(
        [*SOURCES, *SOURCES], [variant, variant], lambda done, total: progress.append((done, total))
    )
    assert progress == [(1, 3), (2, 3), (3, 3)]
    assert sorted(compiler.compiled) == ["conformance.cuh sm_90", "quantize_q8.cuh sm_90"]
    loaded = ctypes.CDLL(str(fake)).fake_functions_loaded()
    assert quantizes(library)
    assert add(library, 3) == [7] * 4
    assert len(compiler.compiled) == 2
    assert ctypes.CDLL(str(fake)).fake_functions_loaded() == loaded
    library.prepare(SOURCES, [variant], lambda done, total: progress.append((done, total)))
    assert len(progress) == 3


def test_long_compilation_is_reported_while_it_lasts(
    make: MakeLibrary, compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_library, "_REPORT_EVERY", 0.001)
    compiled, progress, seen = compiler.compile, list[int](), threading.Event()

    def slow(source: str, architecture: str) -> bytes:
        assert seen.wait(30)
        return compiled(source, architecture)

    def report(done: int, total: int) -> None:
        progress.append(done)
        if len(progress) == 3:
            seen.set()

    monkeypatch.setattr(compiler, "compile", slow)
    make().prepare(SOURCES[:1], (), report)
    assert progress[:3] == [0, 0, 0]
    assert progress[-1] == 1


def test_compiled_kernels_are_cached_for_other_processes(
    make: MakeLibrary, compiler: HostCompiler, variant: Variant
) -> None:
    for _ in range(2):
        library = make()
        library.prepare(SOURCES, [variant])
        assert quantizes(library)
        assert add(library, 1) == [5] * 4
    assert len(compiler.compiled) == 2
    assert variant.compiled == ["sm_90"]


def test_unprepared_kernel_is_compiled_at_its_first_launch(
    make: MakeLibrary, compiler: HostCompiler
) -> None:
    assert quantizes(make())
    assert compiler.compiled == ["quantize_q8.cuh sm_90"]


def test_unprepared_variant_is_an_error(make: MakeLibrary) -> None:
    with pytest.raises(LaunchFailed, match="add_v1 was not prepared"):
        add(make(), 1)


def test_prebuilt_kernels_need_no_compiler(
    make: MakeLibrary, compiler: HostCompiler, variant: Variant, build_folder: Path, tmp_path: Path
) -> None:
    prebuilt = tmp_path / "cubins"
    prebuilt.mkdir()
    text = kernel_source("quantize_q8.cuh")
    library = str(build_host_library("quantize_q8.cuh", build_folder)).encode()
    prebuilt_path(prebuilt, "quantize_q8.cuh", text, "sm_90").write_bytes(library)
    write_compiled_kernel(
        variant.compiled_kernel("sm_90"),
        prebuilt_path(prebuilt, variant.name, variant.source("sm_90"), "sm_90"),
    )
    found = make(prebuilt)
    found.prepare(["quantize_q8.cuh"], [variant])
    assert quantizes(found)
    assert add(found, 2) == [6] * 4
    assert compiler.compiled == []
    assert variant.compiled == []


@pytest.mark.parametrize("what", ["source", "architecture", "defines"])
def test_mismatched_prebuilt_kernels_are_not_used(
    make: MakeLibrary, compiler: HostCompiler, variant: Variant, tmp_path: Path, what: str
) -> None:
    prebuilt, name = tmp_path / "cubins", "quantize_q8.cuh"
    prebuilt.mkdir()
    text = kernel_source(name, {"A": "1"} if what == "defines" else NO_DEFINES)
    text += "// as it was" if what == "source" else ""
    architecture = "sm_89" if what == "architecture" else "sm_90"
    prebuilt_path(prebuilt, name, text, architecture).write_bytes(b"no library")
    old = variant.source(architecture) + (", once" if what == "source" else "")
    if what != "defines":
        stale = prebuilt_path(prebuilt, variant.name, old, architecture)
        write_compiled_kernel(variant.compiled_kernel(architecture), stale)
    library = make(prebuilt)
    library.prepare([name], [variant])
    assert quantizes(library)
    assert compiler.compiled == ["quantize_q8.cuh sm_90"]
    assert variant.compiled == ["sm_90"]


def test_gpus_of_a_generation_share_cubins(
    tmp_path: Path, compiler: HostCompiler, variant: Variant
) -> None:
    text = kernel_source("quantize_q8.cuh")
    prebuilt_path(tmp_path, "quantize_q8.cuh", text, "sm_86").write_bytes(b"of sm_86")
    cache = tmp_path / "cache"
    for architecture, found in (("sm_87", True), ("sm_89", True), ("sm_80", False)):
        finder = CubinFinder(architecture, cache, prebuilt=tmp_path, compiler=lambda: compiler)
        assert (finder.cubin("quantize_q8.cuh") == b"of sm_86") == found
    # A variant may have other constants on the newer GPU: then it gets its own cubin.
    shared = prebuilt_path(tmp_path, variant.name, variant.source("sm_89"), "sm_86")
    write_compiled_kernel(variant.compiled_kernel("sm_86"), shared)
    for architecture in ("sm_89", "sm_87"):
        finder = CubinFinder(architecture, cache, prebuilt=tmp_path, compiler=lambda: compiler)
        finder.variant(variant)
    assert variant.compiled == ["sm_87"]


def test_launches_overlap_only_on_newer_gpus(
    make: MakeLibrary, fake: Path, monkeypatch: pytest.MonkeyPatch, variant: Variant
) -> None:
    count = ctypes.CDLL(str(fake)).fake_launches_with_overlap
    variant.overlap = True

    def overlapping(library: GPULibrary) -> int:
        library.prepare([], [variant])
        before = count()
        assert quantizes(library)
        add(library, 0)
        return count() - before

    assert overlapping(make()) == 2
    assert overlapping(make(overlap=False)) == 0
    monkeypatch.setenv("FAKE_DRIVER_CAPABILITY", "89")
    assert overlapping(make()) == 0


def test_compile_error_ends_the_preparation(
    make: MakeLibrary, compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, architecture: str) -> bytes:
        raise CompileFailed(f"no {architecture} today")

    monkeypatch.setattr(compiler, "compile", refuse)
    with pytest.raises(CompileFailed, match="no sm_90 today"):
        make().prepare(SOURCES)


def test_launches_use_torchs_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = {0: 11, 1: 22}
    native = importlib.import_module("torch._C")
    monkeypatch.setattr(native, "_cuda_getCurrentRawStream", streams.__getitem__, raising=False)
    current = current_stream(1)
    assert current() == 22
    streams[1] = 33
    assert current() == 33
