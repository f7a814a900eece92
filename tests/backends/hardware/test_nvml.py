"""NVML readings and GPU descriptions, from recorded driver answers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from ingle.backends.hardware.machine import Gpu, GpuProcess
from ingle.backends.hardware.nvml import GpuReading, open_nvml
from ingle.backends.registry.cuda_availability import first_visible

MIB = 2**20

RTX_3090: dict[str, object] = {
    "nvmlSystemGetDriverVersion": "550.54.14",
    "nvmlSystemGetCudaDriverVersion_v2": 12040,
    "nvmlDeviceGetName": "NVIDIA GeForce RTX 3090",
    "nvmlDeviceGetUUID": "GPU-8f2d",
    "nvmlDeviceGetMemoryInfo": {"total": 24576 * MIB, "free": 20000 * MIB, "used": 4576 * MIB},
    "nvmlDeviceGetUtilizationRates": {"gpu": 37},
    "nvmlDeviceGetTotalEnergyConsumption": 5_000_000,
    "nvmlDeviceGetPowerUsage": 123_456,
    "nvmlDeviceGetEnforcedPowerLimit": 350_000,
    "nvmlDeviceGetCudaComputeCapability": (8, 6),
    "nvmlDeviceGetMaxClockInfo": 9751,
    "nvmlDeviceGetMemoryBusWidth": 384,
    "nvmlDeviceGetNumGpuCores": 10496,
    "nvmlDeviceGetComputeRunningProcesses_v3": [(4242, 3000 * MIB), (77, None)],
    "nvmlDeviceGetGraphicsRunningProcesses_v3": [(4242, 3000 * MIB), (9, 500 * MIB)],
}


class RecordedNvml:
    """`pynvml` with recorded answers; functions without an answer fail as with an old driver."""

    NVML_CLOCK_MEM = 2

    class NVMLError(Exception):
        """Corresponds to `pynvml.NVMLError`."""

    def __init__(self, answers: dict[str, object], gpus: int = 1) -> None:
        self.open = False
        self._answers = {"nvmlDeviceGetCount": gpus, **answers}

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names, here and below
        self.open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open = False

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index + 1

    def __getattr__(self, name: str) -> Callable[..., object]:
        def function(*arguments: object) -> object:
            answer = self._answers.get(name)
            if answer is None:
                raise self.NVMLError(name)
            if isinstance(answer, dict):
                return SimpleNamespace(**cast("dict[str, int]", answer))
            if isinstance(answer, list):
                processes = cast("list[tuple[int, int | None]]", answer)
                return [SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in processes]
            return answer

        return function


def test_read_returns_gauges_of_every_gpu() -> None:
    reader = open_nvml(RecordedNvml(RTX_3090, gpus=2))
    assert reader is not None
    first, second = reader.read()
    assert first == second
    assert first == GpuReading(
        name="NVIDIA GeForce RTX 3090",
        memory_total=24576 * MIB,
        memory_used=4576 * MIB,
        utilization=0.37,
        watts=123.456,
        joules=5000.0,
    )


def test_describe_returns_properties_and_processes() -> None:
    reader = open_nvml(RecordedNvml(RTX_3090))
    assert reader is not None
    (gpu,) = reader.describe(name_of={4242: "game", 77: "python", 9: "Xorg"}.__getitem__)
    assert gpu == Gpu(
        name="NVIDIA GeForce RTX 3090",
        vendor="nvidia",
        uuid="GPU-8f2d",
        driver="550.54.14",
        cuda="12.4",
        memory_total=24576 * MIB,
        memory_free=20000 * MIB,
        compute_capability=(8, 6),
        cores=10496,
        bandwidth=936_096_000_000.0,
        power_limit=350.0,
        watts=123.456,
        processes=[
            GpuProcess(pid=4242, name="game", memory=3000 * MIB),
            GpuProcess(pid=9, name="Xorg", memory=500 * MIB),
            GpuProcess(pid=77, name="python"),
        ],
    )


@pytest.mark.parametrize("answers", [{"nvmlDeviceGetName": "NVIDIA T4"}, dict.fromkeys(RTX_3090)])
def test_values_missing_in_the_driver_are_none(answers: dict[str, object]) -> None:
    reader = open_nvml(RecordedNvml(answers))
    assert reader is not None
    name = answers["nvmlDeviceGetName"] or "NVIDIA GPU"
    assert reader.describe() == [Gpu(name=str(name), vendor="nvidia")]
    assert reader.read() == [GpuReading(name=str(name))]


def test_missing_driver_gives_no_reader() -> None:
    class Missing(RecordedNvml):
        def nvmlInit(self) -> None:  # noqa: N802
            raise self.NVMLError("no library")

    assert open_nvml(Missing(RTX_3090)) is None


def test_driver_without_gpus_is_closed() -> None:
    library = RecordedNvml(RTX_3090, gpus=0)
    assert open_nvml(library) is None
    assert not library.open


@pytest.mark.parametrize(
    ("visible", "name"),
    [(None, "a"), ("0", "a"), ("1,0", "b"), ("GPU-b", "b"), ("", None), ("-1", None), ("7", None)],
)
def test_first_visible_gpu(visible: str | None, name: str | None) -> None:
    gpus = [Gpu(name=name, vendor="nvidia", uuid=f"GPU-{name}") for name in "ab"]
    found = first_visible(gpus, visible)
    assert (found.name if found else None) == name
