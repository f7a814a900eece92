"""Tests of what is told of devices: from a driver's words, and where there is no driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingle.daemon.device_meters import DeviceMeters, EnergyCount, PackagePower
from ingle.daemon.nvidia import GpuReading, open_nvml

GIB = 2**30
OK, NOT_SUPPORTED = 0, 3


class FakeNvml:
    """Answers as NVML does, into the memory that it is given."""

    def __init__(self, gpus: int = 1, *, meters: bool = True) -> None:
        self.gpus = gpus
        self.millijoules = 5_000_000
        self._meters = OK if meters else NOT_SUPPORTED

    def nvmlInit_v2(self) -> int:  # noqa: N802 - NVML's names, here and below
        return OK

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = self.gpus
        return OK

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:  # noqa: N802
        handle._obj.value = index + 1
        return OK

    def nvmlDeviceGetName(self, handle: Any, name: Any, length: int) -> int:  # noqa: N802
        name.value = f"NVIDIA H{handle.value}00".encode()[: length - 1]
        return OK

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:  # noqa: N802
        memory._obj.total, memory._obj.used = 80 * GIB, 20 * GIB
        return OK

    def nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:  # noqa: N802
        rates._obj.gpu = 37
        return self._meters

    def nvmlDeviceGetPowerUsage(self, handle: Any, watts: Any) -> int:  # noqa: N802
        watts._obj.value = 123_456
        return self._meters

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, joules: Any) -> int:  # noqa: N802
        joules._obj.value = self.millijoules
        return self._meters


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_driver_is_read() -> None:
    reader = open_nvml(FakeNvml(2))
    assert reader is not None
    first, second = reader.read()
    assert first == GpuReading(
        name="NVIDIA H100",
        memory_total=80 * GIB,
        memory_used=20 * GIB,
        utilization=0.37,
        watts=123.456,
        joules=5000.0,
    )
    assert second.name == "NVIDIA H200"


def test_what_a_driver_does_not_tell_is_none() -> None:
    reader = open_nvml(FakeNvml(meters=False))
    assert reader is not None
    (reading,) = reader.read()
    assert (reading.utilization, reading.watts, reading.joules) == (None, None, None)
    assert reading.memory_total == 80 * GIB
    assert open_nvml(FakeNvml(gpus=0)) is None


def test_energy_counts_from_the_first_look(tmp_path: Path) -> None:
    nvml, clock = FakeNvml(), Clock()
    meters = DeviceMeters(lambda: open_nvml(nvml), PackagePower(tmp_path), clock)
    gpu, processor = meters.read()
    assert (gpu.kind, gpu.joules) == ("gpu", 0.0)
    assert (processor.kind, processor.watts, processor.joules) == ("cpu", None, None)
    nvml.millijoules += 7_500
    clock.now += 600
    assert meters.read()[0].joules == 7.5


def test_watts_are_added_up_where_nothing_counts() -> None:
    count = EnergyCount()
    count.observe(None, None, 0.0)
    assert count.joules is None
    count.observe(None, 100.0, 1.0)
    count.observe(None, 50.0, 3.0)
    assert count.joules == 100.0
    count.observe(None, 50.0, 1000.0)  # nobody looked in between
    assert count.joules == 100.0


def test_a_counter_that_begins_anew_goes_on() -> None:
    count = EnergyCount()
    for counter in (50.0, 60.0, 5.0, 6.0):
        count.observe(counter, None, 0.0)
    assert count.joules == 16.0


def test_the_processor_is_read_through_rapl(tmp_path: Path) -> None:
    zones = [tmp_path / name for name in ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1")]
    for zone in zones:
        zone.mkdir()
        (zone / "energy_uj").write_text("2000000\n")
    power = PackagePower(tmp_path)
    assert power.read(10.0) == (None, 0.0)
    (zones[0] / "energy_uj").write_text("32000000\n")
    assert power.read(12.0) == (15.0, 30.0)
    (zones[1] / "energy_uj").write_text("99000000\n")  # a part of the first
    assert power.read(13.0) == (0.0, 30.0)


@pytest.mark.parametrize("content", [None, "no number"])
def test_a_meter_that_cannot_be_read_is_none(tmp_path: Path, content: str | None) -> None:
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    if content is not None:
        (zone / "energy_uj").write_text(content)
    assert PackagePower(tmp_path).read(1.0) == (None, None)


def test_this_machine_has_a_processor_at_least() -> None:
    *_, processor = DeviceMeters().read()
    assert processor.kind == "cpu"
    assert processor.utilization is not None
    assert 0 <= processor.utilization <= 1
