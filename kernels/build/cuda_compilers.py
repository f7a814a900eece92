"""Compile the CUDA C++ sources in csrc to cubins with NVRTC or nvcc, and cache them."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ..errors import CompileFailed
from .compiled_kernel import write_atomically
from .kernel_source import NO_DEFINES, digest, kernel_source

# RTX 30, RTX 40, H100 and H200, RTX 50.
ARCHITECTURES = ("sm_86", "sm_89", "sm_90", "sm_120")


class Compiler(Protocol):
    """Compiles CUDA C++ to a cubin; raises `CompileFailed`."""

    version: str
    """Name and version of the compiler, for cache keys."""

    def compile(self, source: str, architecture: str) -> bytes:
        """The cubin for an architecture such as `sm_90`."""
        ...


class NvrtcCompiler:
    """NVRTC from torch's CUDA wheels: needs no toolkit, host compiler or GPU.

    Raises `CompileFailed` if it is not installed.
    """

    def __init__(self) -> None:
        try:
            self._core: Any = importlib.import_module("cuda.core")
            nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
            _, major, minor = nvrtc.nvrtcVersion()
        except (ImportError, RuntimeError) as error:
            raise CompileFailed(
                f"NVRTC is not installed: {error}.", hint="Run `ingle engine install cuda`."
            ) from error
        self.version = f"nvrtc-{major}.{minor}"

    def compile(self, source: str, architecture: str) -> bytes:
        """See `Compiler`."""
        options = self._core.ProgramOptions(arch=architecture, std="c++17")
        try:
            return bytes(self._core.Program(source, "c++", options).compile("cubin").code)
        except Exception as error:  # of several private types
            raise CompileFailed(f"NVRTC refused a kernel for {architecture}:\n{error}") from error


class NvccCompiler:
    """The nvcc on PATH; raises `CompileFailed` if there is none."""

    def __init__(self) -> None:
        path = shutil.which("nvcc")
        if path is None:
            raise CompileFailed("nvcc is not installed.")
        self._path = path
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        match = re.search(r"release (\S+),", told.stdout)
        self.version = f"nvcc-{match[1] if match else 'unknown'}"

    def compile(self, source: str, architecture: str) -> bytes:
        """See `Compiler`."""
        with tempfile.TemporaryDirectory() as folder:
            text, cubin = Path(folder) / "kernel.cu", Path(folder) / "kernel.cubin"
            text.write_text(source)
            command = [
                self._path,
                f"-arch={architecture}",
                "-std=c++17",
                "-cubin",
                "-o",
                cubin,
                text,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise CompileFailed(f"nvcc refused a kernel for {architecture}:\n{done.stderr}")
            return cubin.read_bytes()


def find_compiler() -> Compiler:
    """NVRTC or nvcc; raises `CompileFailed` if neither is installed."""
    try:
        return NvrtcCompiler()
    except CompileFailed as error:
        try:
            return NvccCompiler()
        except CompileFailed:
            raise error from None


class CubinCache:
    """Cubins in a folder, named by the digest of their source; `compiler` makes missing ones."""

    def __init__(self, folder: Path, compiler: Compiler) -> None:
        self._folder = folder
        self._compiler = compiler

    def cubin(self, name: str, architecture: str, defines: Mapping[str, str] = NO_DEFINES) -> bytes:
        """The cubin of the file `name` in csrc after `defines`; raises `CompileFailed`."""
        source = kernel_source(name, defines)
        key = digest(source, architecture, self._compiler.version)
        path = self._folder / f"{Path(name).stem}-{architecture}-{key}.cubin"
        try:
            return path.read_bytes()
        except FileNotFoundError:
            code = self._compiler.compile(source, architecture)
        write_atomically(path, code)
        return code
