"""Child process that inspects native libraries, run as `python -P -m`.

A build of llama.cpp may crash while it is loaded, and may hold a GPU once it is.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.metadata import version
from pathlib import Path

import msgspec

from .machine import LlamaBuild
from .memory_bandwidth import measure_bandwidth
from .probe import Probe

_NAMES: dict[str, str] = {"MTL": "Metal"}
"""ggml's backend names that users know by another name."""


def main() -> None:
    """Print the result as JSON; `argv` holds the number of threads to measure with."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library may print on stdout
    bandwidth = measure_bandwidth(int(sys.argv[1]))
    sink.write(msgspec.json.encode(Probe(llama_cpp=_llama_build(), bandwidth=bandwidth)))
    sink.close()


def _llama_build() -> LlamaBuild | None:
    try:
        import llama_cpp
    except ModuleNotFoundError:
        return None
    except Exception as error:  # a broken build may raise anything
        return LlamaBuild(version=version("llama-cpp-python"), error=str(error).splitlines()[0])
    folder = Path(llama_cpp.__file__).parent / "lib"
    return LlamaBuild(
        version=llama_cpp.__version__,
        backends=_backends(folder),
        gpu_offload=bool(llama_cpp.llama_supports_gpu_offload()),
    )


def _backends(folder: Path) -> list[str]:
    """Return ggml's registered backends; empty if they cannot be read."""
    candidates = [folder / name for name in ("libggml.so", "libggml.dylib", "ggml.dll")]
    path = next((path for path in candidates if path.exists()), None)
    if path is None:
        return []
    ggml = ctypes.CDLL(str(path))
    ggml.ggml_backend_reg_count.restype = ctypes.c_size_t
    ggml.ggml_backend_reg_get.argtypes = [ctypes.c_size_t]
    ggml.ggml_backend_reg_get.restype = ctypes.c_void_p
    ggml.ggml_backend_reg_name.argtypes = [ctypes.c_void_p]
    ggml.ggml_backend_reg_name.restype = ctypes.c_char_p
    names: list[str] = []
    for index in range(ggml.ggml_backend_reg_count()):
        name = str(ggml.ggml_backend_reg_name(ggml.ggml_backend_reg_get(index)), "utf-8")
        names.append(_NAMES.get(name, name))
    return names


if __name__ == "__main__":
    main()
