"""Fixtures: CUDA kernels compiled for the CPU, cached until their sources change."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from gpu.fake_driver import build_fake_driver
from kernel_harness.host_build import HostModule, build_host_library
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.build.kernel_source import CSRC, NO_DEFINES, kernel_source
from ingle.kernels.matmul.quantized_gemv import QuantizedGemv

LoadHost = Callable[..., HostModule]
MakeLibrary = Callable[..., CPUKernelLibrary]
MakeGemv = Callable[..., QuantizedGemv]

# All numbers of columns; for kinds of columns also all numbers of warps per row.
CHOSEN = [
    (columns, split)
    for columns in range(1, 9)
    for split in (1, 4)
    if split == 1 or columns in (1, 3, 8)
]
VARIANTS = {
    "GEMV_VARIANTS": " ".join(f"VARIANT(2, {columns}, {split})" for columns, split in CHOSEN),
    "GATED_VARIANTS": " ".join(f"GATED({columns}, {split})" for columns, split in CHOSEN),
    "PAIRED_VARIANTS": " ".join(f"PAIRED(2, {columns}, {split})" for columns, split in CHOSEN),
}


@pytest.fixture(scope="session")
def build_folder(pytestconfig: pytest.Config) -> Path:
    """Return a build cache that outlives the session, because g++ takes seconds."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    assert pytestconfig.cache is not None
    return pytestconfig.cache.mkdir("kernels")


@pytest.fixture(scope="session")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a fake CUDA driver library."""
    return build_fake_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="session")
def load_host(build_folder: Path) -> LoadHost:
    """Return a loader of a source's kernels on the CPU; `seed` shuffles the order of threads."""

    def load(name: str, *, seed: int = 0, defines: Mapping[str, str] = NO_DEFINES) -> HostModule:
        return HostModule(build_host_library(name, build_folder, defines=defines), seed=seed)

    return load


@pytest.fixture(scope="session")
def make_library(build_folder: Path) -> MakeLibrary:
    """Return a factory of all kernels on the CPU, for given `variants` of products and `gemm`."""

    def make(
        seed: int = 0,
        num_sms: int = 132,
        variants: Mapping[str, str] = VARIANTS,
        gemm: str | None = None,
    ) -> CPUKernelLibrary:
        sources = {path.name: kernel_source(path.name) for path in CSRC.glob("*.cuh")}
        defines = {name: variants for name, text in sources.items() if "GEMV_VARIANTS" in text}
        if gemm is not None:
            chosen = {"GEMM_VARIANTS": gemm}
            defines |= {name: chosen for name, text in sources.items() if "GEMM_VARIANTS" in text}
        return CPUKernelLibrary(build_folder, seed=seed, num_sms=num_sms, defines=defines)

    return make


@pytest.fixture(scope="session")
def make_gemv(make_library: MakeLibrary) -> MakeGemv:
    """Return a factory of the GEMV operation on kernels that run on the CPU."""

    def make(
        seed: int = 0, num_sms: int = 132, variants: Mapping[str, str] = VARIANTS
    ) -> QuantizedGemv:
        return QuantizedGemv(make_library(seed, num_sms, variants))

    return make
