from __future__ import annotations

from collections.abc import Callable
from ctypes import c_void_p
from pathlib import Path

import numpy as np
import pytest
from kernel_harness.host_build import HostModule, build_host_library
from numpy.typing import NDArray

from ingle.kernels.errors import CompileFailed, LaunchFailed

LoadHost = Callable[..., HostModule]
MISUSE = str(Path(__file__).with_name("misuse.cuh"))


def address(array: NDArray[np.generic]) -> c_void_p:
    return c_void_p(array.ctypes.data)


def run(module: HostModule, kernel: str, threads: int, *arrays: NDArray[np.generic]) -> None:
    module.launch(kernel, (1, 1, 1), (threads, 1, 1), [address(array) for array in arrays])


def reversed_by(module: HostModule, kernel: str) -> bool:
    x, y = np.arange(128, dtype=np.int32), np.full(128, -1, np.int32)
    run(module, kernel, 128, x, y)
    return bool((y == x[::-1]).all())


@pytest.mark.parametrize("seed", range(4))
def test_barriers_hold_in_any_thread_order(load_host: LoadHost, seed: int) -> None:
    assert reversed_by(load_host(MISUSE, seed=seed), "reverse")


@pytest.mark.parametrize("seed", range(4))
def test_missing_barrier_is_detected(load_host: LoadHost, seed: int) -> None:
    assert not reversed_by(load_host(MISUSE, seed=seed), "reverse_without_barrier")


def test_async_copy_without_wait_is_not_visible(load_host: LoadHost) -> None:
    x, y = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    run(load_host(MISUSE), "reverse_without_waiting", 32, x, y)
    assert (y == 0xFFFFFFFF).all()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("kernel", "threads", "report"),
    [
        ("shuffle_in_a_branch", 32, "deadlock: .*__s.*; thread .* waits at __s"),
        ("different_operations", 32, "divergence in warp 0: one lane is at __s"),
        ("one_barrier_too_few", 128, "__syncwarp: lane [0-9]+ is not in its own mask 0000ffff"),
    ],
)
def test_diverging_threads_are_reported(
    load_host: LoadHost, seed: int, kernel: str, threads: int, report: str
) -> None:
    with pytest.raises(LaunchFailed, match=f"{kernel}: block 0: {report}"):
        run(load_host(MISUSE, seed=seed), kernel, threads, np.zeros(128, np.int32))


def test_launches_work_after_a_failed_one(load_host: LoadHost) -> None:
    module = load_host(MISUSE)
    with pytest.raises(LaunchFailed):
        run(module, "different_operations", 32, np.zeros(128, np.int32))
    assert reversed_by(module, "reverse")


def test_shuffles_from_exited_lanes_are_nan(load_host: LoadHost) -> None:
    y = np.zeros(24, np.float32)
    run(load_host(MISUSE), "lanes_that_left", 32, y)
    assert np.isnan(y[16:]).all()
    assert (y[:16] == (np.arange(16) ^ 8)).all()


@pytest.mark.parametrize("seed", range(3))
def test_half_warps_synchronise_separately(load_host: LoadHost, seed: int) -> None:
    y = np.zeros(32, np.int32)
    run(load_host(MISUSE, seed=seed), "half_warps", 32, y)
    assert (y == (np.arange(32) ^ 1)).all()


def test_atomic_sums_of_all_blocks(load_host: LoadHost) -> None:
    total, amount = np.zeros(1, np.int32), np.zeros(1, np.float32)
    load_host(MISUSE).launch("count", (50, 1, 1), (64, 1, 1), [address(total), address(amount)])
    assert (total[0], amount[0]) == (3200, 1600)


def test_blocks_of_three_dimensions_and_dynamic_memory(load_host: LoadHost) -> None:
    wanted, y = np.array([7], np.uint32), np.zeros((24, 24), np.int32)
    load_host(MISUSE).launch(
        "indices", (2, 3, 4), (4, 3, 2), [address(wanted), address(y)], shared_bytes=96
    )
    assert (y == 7 + 100 * np.arange(24)[:, None] + np.arange(24)).all()


def test_misaligned_addresses_are_reported(load_host: LoadHost) -> None:
    x, y = np.zeros(132, np.uint32), np.zeros(32, np.uint32)
    shift = 1 if x.ctypes.data % 16 == 0 else 0
    with pytest.raises(LaunchFailed, match="load_16: an address is not a multiple of 16"):
        run(load_host(MISUSE), "past_the_end", 32, x[shift:], y)


def test_compiler_errors_are_reported(tmp_path: Path) -> None:
    source = tmp_path / "wrong.cuh"
    source.write_text('#include "portable.cuh"\nint wrong() { return undeclared; }\n')
    with pytest.raises(CompileFailed, match=r"wrong\.cuh:2:.*undeclared"):
        build_host_library(str(source), tmp_path)


@pytest.mark.parametrize(
    ("grid", "threads"), [((0, 1, 1), 32), ((1, 65536, 1), 32), ((1, 1, 1), 1056)]
)
def test_invalid_launch_configuration_is_rejected(
    load_host: LoadHost, grid: tuple[int, int, int], threads: int
) -> None:
    with pytest.raises(LaunchFailed, match="no GPU starts"):
        load_host(MISUSE).launch("reverse", grid, (threads, 1, 1), [])
