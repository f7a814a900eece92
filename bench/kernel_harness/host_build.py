"""Compile the kernels for the CPU with g++, to test them without a GPU."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from ingle.kernels.build.kernel_source import CSRC, NO_DEFINES, digest, kernel_source
from ingle.kernels.errors import CompileFailed, LaunchFailed
from ingle.kernels.launch.cuda_driver import Argument, Grid

_FLAGS = ("-std=c++17", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")
_WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-clobbered")
# CUDA's limit for each dimension of a grid but the first.
_MOST_BLOCKS = 65535
# Undefined behaviour ends the process; the report names the line in csrc.
_SANITIZERS = {
    "accesses": ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "races": ("-O1", "-g", "-fsanitize=thread"),
}


def build_host_library(
    name: str,
    folder: Path,
    *,
    sanitize: Literal["accesses", "races"] | None = None,
    defines: Mapping[str, str] = NO_DEFINES,
) -> Path:
    """Compile the file `name` of csrc to a shared library, cached in `folder`.

    Raises `CompileFailed` if g++ is missing or rejects the source.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise CompileFailed("g++ is not installed.", hint="Install a C++ compiler.")
    flags = [*_FLAGS, *_WARNINGS, *(_SANITIZERS[sanitize] if sanitize else ("-O1",))]
    source, shim = kernel_source(name, defines), (CSRC / "cuda_shim.h").read_text()
    library = folder / f"{Path(name).stem}-{digest(source, shim, *flags)}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        text, made = Path(temporary) / f"{Path(name).stem}.cpp", Path(temporary) / "kernels.so"
        text.write_text(source)
        command = [compiler, *flags, f"-I{CSRC}", "-o", str(made), str(text)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileFailed(f"g++ refused {name}:\n{done.stderr}")
        made.replace(library)
    return library


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("seed", ctypes.c_uint),
        ("threads", ctypes.c_uint),
    )


class HostModule:
    """Kernels that run on the CPU, a fibre for each CUDA thread; see csrc/cuda_shim.h.

    `seed` shuffles the order in which threads run, unless it is 0.
    """

    def __init__(self, library: Path, *, seed: int = 0, threads: int | None = None) -> None:
        self._library = ctypes.CDLL(str(library))
        self.seed = seed
        self._threads = threads or min(4, os.cpu_count() or 1)

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
        """See `CudaModule`; the kernel has ended when this returns."""
        del stream, overlap
        check_shape(kernel, grid, block)
        how = _Launch(grid, block, shared_bytes, self.seed, self._threads)
        addresses = (ctypes.addressof(each) for each in arguments)
        pointers = (ctypes.c_void_p * len(arguments))(*addresses)
        error = ctypes.create_string_buffer(1024)
        function = getattr(self._library, f"shim_{kernel}")
        if function(ctypes.byref(how), pointers, error, ctypes.c_size_t(len(error))):
            raise LaunchFailed(f"{kernel}: {error.value.decode()}.")


def check_shape(kernel: str, grid: Grid, block: Grid = (1, 1, 1)) -> None:
    """Raise `LaunchFailed` for launches that no GPU accepts."""
    fits = min(*grid, *block) > 0 and max(grid[1:]) <= _MOST_BLOCKS and math.prod(block) <= 1024
    if not fits:
        raise LaunchFailed(f"{kernel}: no GPU starts {block} threads in each of {grid} blocks.")
