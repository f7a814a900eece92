"""The kernels under address, undefined-behaviour and thread sanitizers, in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from kernel_harness.host_build import HostModule, build_host_library

from .kernel_cases import NAMES, MakeQuantized, kernel_cases
from .replay import Case, run_cases, write_cases

LoadHost = Callable[..., HostModule]
MEMORY, RACES = ("libasan.so", "libubsan.so"), ("libtsan.so",)
# What the fast tests check for races.
QUICK = ("q4_0", "quantize_q8")


def with_marks(name: str) -> ParameterSet:
    return pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)


def runtimes(names: Sequence[str]) -> str:
    """Return the sanitizers' runtime libraries, which must be loaded first."""
    found = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in names
    ]
    if not all(Path(path).is_absolute() for path in found):
        pytest.skip("g++ came without the sanitizers")
    return ":".join(found)


def replay(
    library: Path, cases: Sequence[Case], folder: Path, names: Sequence[str] = MEMORY
) -> subprocess.CompletedProcess[str]:
    write_cases(folder / "cases.npz", cases)
    script = Path(__file__).with_name("replay.py")
    bench = Path(__file__).parents[3] / "bench"
    # Python itself leaks, and its allocator would hide accesses past an array.
    environment = {
        "LD_PRELOAD": runtimes(names),
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "halt_on_error=1 ignore_noninstrumented_modules=1",
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(bench),
    }
    return subprocess.run(
        [sys.executable, "-P", str(script), library, folder / "cases.npz", folder / "out.npz"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_kernels_make_no_invalid_accesses(
    load_host: LoadHost,
    build_folder: Path,
    make_quantized: MakeQuantized,
    tmp_path: Path,
    name: str,
) -> None:
    cases, defines = kernel_cases(name, make_quantized)
    library = build_host_library(f"{name}.cuh", build_folder, sanitize="accesses", defines=defines)
    done = replay(library, cases, tmp_path)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as stored:
        found = [stored[key] for key in stored.files]
    for ours, expected in zip(
        found, run_cases(load_host(f"{name}.cuh", defines=defines), cases), strict=True
    ):
        assert np.array_equal(ours.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("name", [with_marks(name) for name in NAMES])
def test_kernels_have_no_races(
    build_folder: Path, make_quantized: MakeQuantized, tmp_path: Path, name: str
) -> None:
    cases, defines = kernel_cases(name, make_quantized)
    library = build_host_library(f"{name}.cuh", build_folder, sanitize="races", defines=defines)
    done = replay(library, cases, tmp_path, RACES)
    assert done.returncode == 0, done.stderr


def misused(build_folder: Path, folder: Path, kernel: str) -> subprocess.CompletedProcess[str]:
    misuse = str(Path(__file__).with_name("misuse.cuh"))
    library = build_host_library(misuse, build_folder, sanitize="races")
    x, y = np.zeros((2, 160), np.uint32)
    of_blocks = kernel.startswith("sum")
    arrays = (x, y, np.zeros(1, np.uint32)) if of_blocks else (x, y)
    threads = 128 if kernel in ("reverse", "reverse_without_barrier") else 32
    if of_blocks:
        grid, block = (5, 1, 1), (32 if "warps" in kernel else 1, 1, 1)
    else:
        grid, block = (1, 1, 1), (threads, 1, 1)
    return replay(library, [Case(kernel, grid, block, arrays)], folder, RACES)


@pytest.mark.parametrize(
    "kernel",
    [
        *("reverse_without_barrier", "reverse_with_shuffle", "copy_too_early"),
        *("sum_without_fence", "sum_by_warps_with_shuffle"),
    ],
)
def test_races_are_detected(build_folder: Path, tmp_path: Path, kernel: str) -> None:
    done = misused(build_folder, tmp_path, kernel)
    assert done.returncode == 66, done.stderr
    assert "data race" in done.stderr
    assert "misuse.cuh" in done.stderr


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param("reverse", marks=pytest.mark.slow),
        *("sum_with_fence", "sum_by_ordered_warps"),
    ],
)
def test_barriers_and_fences_order_accesses(
    build_folder: Path, tmp_path: Path, kernel: str
) -> None:
    done = misused(build_folder, tmp_path, kernel)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("kernel", "words"), [("past_the_end", 124), ("past_shared_memory", 32)])
def test_invalid_accesses_are_detected(
    build_folder: Path, tmp_path: Path, kernel: str, words: int
) -> None:
    misuse = str(Path(__file__).with_name("misuse.cuh"))
    library = build_host_library(misuse, build_folder, sanitize="accesses")
    arrays = np.zeros(words, np.uint32), np.zeros(32, np.uint32)
    done = replay(library, [Case(kernel, (1, 1, 1), (32, 1, 1), arrays)], tmp_path)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "misuse.cuh" in done.stderr
