"""Runs launches from a file, so that sanitizers can check them in a process without torch.

`replay.py LIBRARY CASES RESULTS` runs all cases of one library and writes the resulting arrays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from ctypes import c_float, c_int, c_void_p
from pathlib import Path
from typing import NamedTuple

import numpy as np
from kernel_harness.host_build import HostModule
from numpy.typing import NDArray

from ingle.kernels.launch.cuda_driver import Argument, CudaModule, Grid


class Case(NamedTuple):
    """One launch; arrays are passed by address, and all of them are read back."""

    kernel: str
    grid: Grid
    block: Grid
    arguments: Sequence[NDArray[np.generic] | int | float]
    shared_bytes: int = 0


def run_cases(module: HostModule | CudaModule, cases: Sequence[Case]) -> list[NDArray[np.generic]]:
    """Return every array of every case after its launch."""
    results: list[NDArray[np.generic]] = []
    for case in cases:
        arrays = [each.copy() for each in case.arguments if not isinstance(each, int | float)]
        left = iter(arrays)
        arguments = [_argument(each, left) for each in case.arguments]
        module.launch(case.kernel, case.grid, case.block, arguments, shared_bytes=case.shared_bytes)
        results += arrays
    return results


def _argument(
    value: NDArray[np.generic] | int | float, arrays: Iterator[NDArray[np.generic]]
) -> Argument:
    if isinstance(value, int):
        return c_int(value)
    if isinstance(value, float):
        return c_float(value)
    return c_void_p(next(arrays).ctypes.data)


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    """Write cases for `read_cases`."""
    arrays: list[NDArray[np.generic]] = []
    shapes: list[object] = []
    for case in cases:
        numbers = [each if isinstance(each, int | float) else None for each in case.arguments]
        arrays += [each for each in case.arguments if not isinstance(each, int | float)]
        shapes.append((case.kernel, case.grid, case.block, numbers, case.shared_bytes))
    with path.open("wb") as file:
        np.savez(file, np.array(json.dumps(shapes)), *arrays)


def read_cases(path: Path) -> list[Case]:
    """Read what `write_cases` wrote."""
    with np.load(path) as stored:
        arrays = iter([stored[name] for name in stored.files[1:]])
        shapes = json.loads(str(stored["arr_0"]))
    return [
        Case(
            kernel,
            (grid[0], grid[1], grid[2]),
            (block[0], block[1], block[2]),
            [next(arrays) if number is None else number for number in numbers],
            shared_bytes,
        )
        for kernel, grid, block, numbers, shared_bytes in shapes
    ]


def main() -> None:
    """Run as described in the module."""
    library, cases, results = map(Path, sys.argv[1:])
    outputs = run_cases(HostModule(library, seed=5, threads=1), read_cases(cases))
    with results.open("wb") as file:
        np.savez(file, *outputs)


if __name__ == "__main__":
    main()
