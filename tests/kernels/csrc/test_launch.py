"""Launching kernels through a fake driver that is compiled against CUDA's own header."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int, c_void_p
from pathlib import Path

import numpy as np
import pytest
import torch
from kernel_harness.host_build import build_host_library

from ingle.kernels.elementwise.activations import quantize_q8_reference
from ingle.kernels.errors import DriverUnavailable, LaunchFailed
from ingle.kernels.launch.cuda_driver import CudaDriver, CudaModule

FOLDER = Path(__file__).parent
STREAM = 0xABCDEF0123


@pytest.fixture
def driver(fake: Path) -> CudaDriver:
    return CudaDriver(library=fake)


@pytest.fixture
def misuse(driver: CudaDriver, build_folder: Path) -> CudaModule:
    library = build_host_library(str(FOLDER / "misuse.cuh"), build_folder)
    return driver.load(str(library).encode())


def test_device_properties(driver: CudaDriver) -> None:
    assert (driver.architecture, driver.num_sms) == ("sm_90", 132)


def test_arguments_grid_and_shared_memory_are_passed(misuse: CudaModule) -> None:
    wanted, y = np.array([7], np.uint32), np.zeros((24, 24), np.int32)
    pointers = [c_void_p(array.ctypes.data) for array in (wanted, y)]
    misuse.launch("indices", (2, 3, 4), (4, 3, 2), pointers, shared_bytes=96, stream=STREAM)
    assert (y == 7 + 100 * np.arange(24)[:, None] + np.arange(24)).all()


def test_arguments_of_a_real_kernel_are_passed(driver: CudaDriver, build_folder: Path) -> None:
    module = driver.load(str(build_host_library("quantize_q8.cuh", build_folder)).encode())
    x = torch.randn(3, 1024).half()
    tiles = torch.empty(1, 3, 1536, dtype=torch.uint8)
    arguments = c_void_p(x.data_ptr()), c_void_p(tiles.data_ptr()), c_int(1024), c_int(1)
    module.launch("quantize_q8", (3, 2, 1), (128, 1, 1), arguments)
    assert torch.equal(tiles, quantize_q8_reference(x))


@pytest.mark.parametrize(("carveout", "calls"), [(100, 1), (None, 0)])
def test_kernels_prefer_the_same_share_of_shared_memory(
    fake: Path, build_folder: Path, carveout: int | None, calls: int
) -> None:
    count = ctypes.CDLL(str(fake)).fake_carveouts
    library = build_host_library(str(FOLDER / "misuse.cuh"), build_folder)
    module = CudaDriver(library=fake, shared_carveout=carveout).load(str(library).encode())
    wanted, y = np.zeros(1, np.uint32), np.zeros((1, 24), np.int32)
    pointers = [c_void_p(array.ctypes.data) for array in (wanted, y)]
    before = count()
    for _ in range(2):
        module.launch("indices", (1, 1, 1), (4, 3, 2), pointers, shared_bytes=96)
    assert count() - before == calls


def test_only_recorded_launches_hold_the_gil(
    misuse: CudaModule, driver: CudaDriver, fake: Path
) -> None:
    """A launch waits while the GPU's queue is full; other threads have to go on meanwhile."""
    count = ctypes.CDLL(str(fake)).fake_launches_with_gil
    wanted, y = np.zeros(1, np.uint32), np.zeros((1, 24), np.int32)
    pointers = [c_void_p(array.ctypes.data) for array in (wanted, y)]

    def launch() -> int:
        """Launch once; returns how many launches held the GIL."""
        before = count()
        misuse.launch("indices", (1, 1, 1), (4, 3, 2), pointers, shared_bytes=96)
        return count() - before

    assert launch() == 0
    with driver.holding_gil(), ThreadPoolExecutor(1, initializer=driver.make_current) as other:
        assert launch() == 1
        assert other.submit(launch).result() == 0, "another model's eager step"
    assert launch() == 0


def test_large_shared_memory_is_requested(misuse: CudaModule) -> None:
    wanted, y = np.zeros(1, np.uint32), np.zeros((1, 24), np.int32)
    pointers = [c_void_p(array.ctypes.data) for array in (wanted, y)]
    misuse.launch("indices", (1, 1, 1), (4, 3, 2), pointers, shared_bytes=200_000)
    assert (y == np.arange(24)).all()


def test_prepare_loads_all_kernels_of_a_module(misuse: CudaModule, fake: Path) -> None:
    loaded = ctypes.CDLL(str(fake)).fake_functions_loaded
    before = loaded()
    names = misuse.prepare()
    assert {"indices", "reverse"} <= set(names)
    assert loaded() - before == len(names)


def test_concurrent_launches_do_not_share_argument_buffers(
    misuse: CudaModule, driver: CudaDriver
) -> None:
    def reverse(seed: int) -> bool:
        driver.make_current()
        x, y = np.arange(seed, seed + 128, dtype=np.int32), np.zeros(128, np.int32)
        pointers = [c_void_p(array.ctypes.data) for array in (x, y)]
        for _ in range(20):
            y[:] = 0
            misuse.launch("reverse", (1, 1, 1), (128, 1, 1), pointers)
            if not (y == x[::-1]).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(reverse, range(4)))


def test_overlap_is_a_launch_attribute(misuse: CudaModule, fake: Path) -> None:
    x, y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    pointers = [c_void_p(array.ctypes.data) for array in (x, y)]
    count = ctypes.CDLL(str(fake)).fake_launches_with_overlap
    before = count()
    misuse.launch("reverse", (1, 1, 1), (128, 1, 1), pointers)
    assert count() == before
    misuse.launch("reverse", (1, 1, 1), (128, 1, 1), pointers, overlap=True)
    assert count() == before + 1
    assert (y == x[::-1]).all()


def test_errors_contain_the_drivers_error_names(driver: CudaDriver, misuse: CudaModule) -> None:
    with pytest.raises(LaunchFailed, match="failed with CUDA_ERROR_INVALID_IMAGE") as caught:
        driver.load(b"no such library")
    assert "older" in (caught.value.hint or "")
    with pytest.raises(LaunchFailed, match="cuModuleGetFunction failed with CUDA_ERROR_NOT_FOUND"):
        misuse.launch("nothing", (1, 1, 1), (32, 1, 1), [])
    y = np.zeros(128, np.int32)
    with pytest.raises(
        LaunchFailed, match="different_operations did not start: CUDA_ERROR_LAUNCH_FAILED"
    ):
        misuse.launch("different_operations", (1, 1, 1), (32, 1, 1), [c_void_p(y.ctypes.data)])


def test_no_gpu_is_an_error(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DRIVER_WITHOUT_GPU", "1")
    with pytest.raises(DriverUnavailable, match=r"GPU 0 cannot be used: cuInit .*NO_DEVICE"):
        CudaDriver(library=fake)


def test_missing_device_index_is_an_error(fake: Path) -> None:
    with pytest.raises(DriverUnavailable, match=r"GPU 3 cannot be used: .*INVALID_DEVICE"):
        CudaDriver(3, library=fake)


def test_missing_driver_library_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DriverUnavailable, match="There is no NVIDIA driver") as caught:
        CudaDriver(library=tmp_path / "libcuda.so.1")
    assert caught.value.hint is not None
