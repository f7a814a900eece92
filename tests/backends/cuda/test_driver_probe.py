"""The driver's own reason why a GPU cannot be used, from libraries that answer like libcuda."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda import device as device_module
from ingle.backends.cuda.device import choose_device
from ingle.backends.cuda.driver_probe import driver_fault
from ingle.backends.hardware.machine import Gpu

SOURCE = """
int cuInit(unsigned flags) {{ return {init}; }}
int cuDeviceGetCount(int *count) {{ *count = {count}; return 0; }}
int cuGetErrorName(int code, const char **name) {{ *name = "{name}"; return 0; }}
"""
BuildDriver = Callable[..., str]


@pytest.fixture
def build_driver(tmp_path: Path) -> BuildDriver:
    def build(init: int = 0, count: int = 1, name: str = "CUDA_SUCCESS") -> str:
        source, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
        source.write_text(SOURCE.format(init=init, count=count, name=name))
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        return str(library)

    return build


def test_working_driver_has_no_fault(build_driver: BuildDriver) -> None:
    assert driver_fault(build_driver()) is None


def test_code_of_cuinit_is_named_with_its_remedy(build_driver: BuildDriver) -> None:
    fault = driver_fault(build_driver(999, name="CUDA_ERROR_UNKNOWN"))
    assert fault is not None
    assert fault.reason == "cuInit answers 999 (CUDA_ERROR_UNKNOWN)"
    assert "nvidia-modprobe" in fault.remedy


def test_driver_without_devices(build_driver: BuildDriver) -> None:
    fault = driver_fault(build_driver(count=0))
    assert fault is not None
    assert "finds no GPU" in fault.reason


def test_missing_library(tmp_path: Path) -> None:
    fault = driver_fault(str(tmp_path / "libcuda.so.1"))
    assert fault is not None
    assert "cannot be loaded" in fault.reason


@pytest.fixture
def gpu_of_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(name="RTX 4090", vendor="nvidia", compute_capability=(8, 9))

    def seen(_name_of: object) -> list[Gpu]:
        return [gpu]

    monkeypatch.setattr(device_module, "describe_nvidia_gpus", seen)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("gpu_of_nvml")
def test_gpu_that_cuda_cannot_use_fails_the_load(
    build_driver: BuildDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = build_driver(999, name="CUDA_ERROR_UNKNOWN")
    monkeypatch.setattr(device_module, "driver_fault", lambda: driver_fault(library))
    spec = LoadSpec(engine="cuda", path="m.gguf", context=512)
    with pytest.raises(LoadFailed, match="RTX 4090 cannot be used: cuInit answers 999") as failed:
        choose_device(spec, "2 threads")
    assert "nvidia-modprobe" in (failed.value.hint or "")
    on_cpu = choose_device(LoadSpec(engine="cuda", path="m.gguf", context=512, device="cpu"), "2")
    assert on_cpu.device.type == "cpu"


@pytest.mark.usefixtures("gpu_of_nvml")
def test_gpu_that_is_hidden_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert choose_device(LoadSpec(engine="cuda", path="m", context=1), "2").warning
