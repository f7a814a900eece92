"""A fake driver library that runs kernels on the CPU, to measure launch cost without a GPU."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

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
