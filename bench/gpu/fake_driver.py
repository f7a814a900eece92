"""A fake driver library that runs kernels on the CPU: what launches them is what does on a GPU."""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kernel_harness.host_build import build_host_library

from ingle.kernels.build.cubin_finder import CubinFinder
from ingle.kernels.build.kernel_source import CSRC, NO_DEFINES, digest, kernel_source
from ingle.kernels.launch.cuda_driver import CudaDriver
from ingle.kernels.launch.gpu_library import GPULibrary

_SOURCE = Path(__file__).parents[2] / "tests" / "kernels" / "csrc" / "fake_driver.cpp"


def build_fake_driver(folder: Path) -> Path:
    """Compiled with CUDA's own header, which Triton's package brings along."""
    triton = importlib.util.find_spec("triton")
    if triton is None or triton.origin is None:
        raise FileNotFoundError("Triton is not installed, which has cuda.h.")
    header = Path(triton.origin).parent / "backends" / "nvidia" / "include"
    library = folder / "libcuda.so.1"
    command = ["g++", "-shared", "-fPIC", f"-I{header}", _SOURCE, "-ldl", "-o", library]
    subprocess.run(command, check=True)
    return library


def fake_gpu_library(
    folder: Path,
    *,
    driver: Path | None = None,
    defines: Mapping[str, Mapping[str, str]] | None = None,
    overlap: bool = True,
) -> GPULibrary:
    """Return the library of a GPU on a fake driver, whose kernels run on the CPU.

    What it compiles is cached in `folder`; `driver` is a fake one that is built already.
    """
    chosen = defines or {}
    with tempfile.TemporaryDirectory() as temporary:
        fake = CudaDriver(library=driver or build_fake_driver(Path(temporary)))
    finder = CubinFinder(
        fake.architecture, folder, prebuilt=folder, compiler=lambda: _Paths(folder, chosen)
    )
    return GPULibrary(fake, finder, defines=chosen, overlap=overlap, stream=lambda: 0)


class _Paths:
    """A compiler whose cubins are what the fake driver loads: paths of libraries."""

    def __init__(self, folder: Path, defines: Mapping[str, Mapping[str, str]]) -> None:
        self.version = digest((CSRC / "cuda_shim.h").read_text())
        self._folder = folder
        self._names = {
            kernel_source(path.name, chosen): (path.name, chosen)
            for path in CSRC.glob("*.cuh")
            for chosen in (NO_DEFINES, defines.get(path.name, NO_DEFINES))
        }

    def compile(self, source: str, architecture: str) -> bytes:
        """Return the path of the library."""
        del architecture
        name, defines = self._names[source]
        return str(build_host_library(name, self._folder, defines=defines)).encode()
