"""Measures memory bandwidth, which bounds the tokens per second of a model on a CPU."""

from __future__ import annotations

import threading
import time

import numpy as np
import psutil
from numpy.typing import NDArray

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
