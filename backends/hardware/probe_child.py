"""Child process that inspects native libraries, run as `python -P -m`.

A build of llama.cpp may crash while it is loaded, and may hold a GPU once it is.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import msgspec
import numpy as np
import psutil
from numpy.typing import NDArray

from .llama_cpp_library import library_folder, load_backends
from .machine import LlamaBuild
from .probe import Probe, is_busy

_NAMES: dict[str, str] = {"MTL": "Metal"}
"""ggml's backend names that users know by another name."""


_BYTES_A_THREAD = 64 * 2**20
"""Several times the size of a thread's share of the caches."""
_LEAST_BYTES = 128 * 2**20
_ROUNDS = 4
_SECONDS = 0.08


def measure_bandwidth(threads: int) -> float:
    """Return the bytes per second that `threads` threads read together, the best of a few rounds.

    0 if there is too little memory to measure with.
    """
    each = max(_BYTES_A_THREAD, _LEAST_BYTES // threads)
    while each * threads > psutil.virtual_memory().available // 4:
        each //= 2
    if each < 2**20:
        return 0.0
    # Written to, since untouched memory is one shared page of zeros.
    arrays = [np.ones(each // 4, dtype=np.float32) for _ in range(threads)]
    return max(_read_all(arrays) for _ in range(_ROUNDS))


def _read_all(arrays: list[NDArray[np.float32]]) -> float:
    """Return the bytes per second of one round; numpy reads without the GIL."""
    read = [0] * len(arrays)
    barrier = threading.Barrier(len(arrays) + 1)

    def work(number: int) -> None:
        array = arrays[number]
        barrier.wait()
        while time.perf_counter() < end:
            array.max()
            read[number] += array.nbytes

    workers = [threading.Thread(target=work, args=(number,)) for number in range(len(arrays))]
    for worker in workers:
        worker.start()
    start = time.perf_counter()
    end = start + _SECONDS
    barrier.wait()
    for worker in workers:
        worker.join()
    return sum(read) / (time.perf_counter() - start)


def main() -> None:
    """Print the result as JSON; `argv` holds the number of threads to measure with."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library may print on stdout
    busy, bandwidth = is_busy(), measure_bandwidth(int(sys.argv[1]))
    probe = Probe(llama_cpp=llama_build(), bandwidth=bandwidth, busy=busy)
    sink.write(msgspec.json.encode(probe))
    sink.close()


def llama_build() -> LlamaBuild | None:
    """Load llama.cpp and return how it was built; None if it is not installed."""
    try:
        import llama_cpp
    except ModuleNotFoundError:
        return None
    except Exception as error:  # a broken build may raise anything
        return LlamaBuild(version=version("llama-cpp-python"), error=str(error).splitlines()[0])
    folder = library_folder()
    return LlamaBuild(
        version=llama_cpp.__version__,
        backends=[] if folder is None else _backends(folder),
        gpu_offload=bool(llama_cpp.llama_supports_gpu_offload()),
    )


def _backends(folder: Path) -> list[str]:
    """Return ggml's registered backends; empty if they cannot be read."""
    ggml = load_backends(folder)
    if ggml is None:
        return []
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
