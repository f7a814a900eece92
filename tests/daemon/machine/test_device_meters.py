"""Device gauges: GPU and CPU energy, from drivers and RAPL counters."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from ingle.backends.hardware.nvml import GpuReading, NvmlReader
from ingle.daemon.machine.device_meters import DeviceMeters, EnergyCount, PackagePower


class FakeGpu:
    """A GPU whose energy counter is advanced by the test."""

    def __init__(self) -> None:
        self.joules = 5000.0
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def read(self) -> list[GpuReading]:
        return [GpuReading(name="NVIDIA H100", joules=self.joules)]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_gpu_energy_counts_from_the_first_reading(tmp_path: Path) -> None:
    graphics, clock = FakeGpu(), Clock()
    meters = DeviceMeters(lambda: cast("NvmlReader", graphics), PackagePower(tmp_path), clock)
    gpu, processor = meters.read()
    assert (gpu.kind, gpu.joules) == ("gpu", 0.0)
    assert (processor.kind, processor.watts, processor.joules) == ("cpu", None, None)
    graphics.joules += 7.5
    clock.now += 600
    assert meters.read()[0].joules == 7.5


def test_driver_is_kept_open_only_while_held(tmp_path: Path) -> None:
    graphics = FakeGpu()
    meters = DeviceMeters(lambda: cast("NvmlReader", graphics), PackagePower(tmp_path))
    meters.read()
    assert graphics.closed == 1
    meters.hold(True)
    meters.read()
    graphics.joules += 3.0
    assert meters.read()[0].joules == 3.0
    assert graphics.closed == 1
    meters.hold(False)
    assert graphics.closed == 2


def test_energy_is_integrated_from_watts_without_a_counter() -> None:
    set_energy = EnergyCount()
    set_energy.observe(None, None, 0.0)
    assert set_energy.joules is None
    set_energy.observe(None, 100.0, 1.0)
    set_energy.observe(None, 50.0, 3.0)
    assert set_energy.joules == 100.0
    set_energy.observe(None, 50.0, 1000.0)  # a gap in the readings is not counted
    assert set_energy.joules == 100.0


def test_counter_reset_continues_the_total() -> None:
    set_energy = EnergyCount()
    for counter in (50.0, 60.0, 5.0, 6.0):
        set_energy.observe(counter, None, 0.0)
    assert set_energy.joules == 16.0


ZONES = {
    "intel-rapl:0": "package-0",
    "intel-rapl:0:0": "core",
    "intel-rapl:1": "package-1",
    "intel-rapl:2": "psys",
}


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """Two packages, a core zone and a psys zone; each has counted 2 of 262 joules."""
    for zone, name in ZONES.items():
        folder = tmp_path / zone
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        (folder / "energy_uj").write_text("2000000\n")
        (folder / "max_energy_range_uj").write_text("262000000\n")
    return tmp_path


def set_energy(powercap: Path, zone: str, joules: int) -> None:
    (powercap / zone / "energy_uj").write_text(f"{joules}000000\n")


def test_cpu_power_is_read_from_rapl(powercap: Path) -> None:
    power = PackagePower(powercap)
    assert power.read(10.0) == (None, 0.0)
    set_energy(powercap, "intel-rapl:0", 32)
    assert power.read(12.0) == (15.0, 30.0)


@pytest.mark.parametrize("zone", ["intel-rapl:0:0", "intel-rapl:2"])
def test_core_and_psys_zones_are_not_counted_twice(powercap: Path, zone: str) -> None:
    power = PackagePower(powercap)
    power.read(10.0)
    set_energy(powercap, zone, 99)
    assert power.read(12.0) == (0.0, 0.0)


def test_rapl_counter_overflow_of_one_package(powercap: Path) -> None:
    power = PackagePower(powercap)
    set_energy(powercap, "intel-rapl:0", 252)
    set_energy(powercap, "intel-rapl:1", 200)
    power.read(10.0)
    set_energy(powercap, "intel-rapl:0", 5)
    set_energy(powercap, "intel-rapl:1", 215)
    assert power.read(11.0) == (30.0, 30.0)


@pytest.mark.parametrize("content", [None, "no number"])
def test_unreadable_rapl_counter_gives_none(powercap: Path, content: str | None) -> None:
    meter = powercap / "intel-rapl:0" / "energy_uj"
    meter.unlink()
    if content is not None:
        meter.write_text(content)
    assert PackagePower(powercap).read(1.0) == (None, None)


def test_cpu_gauges_of_this_machine() -> None:
    *_, processor = DeviceMeters().read()
    assert processor.kind == "cpu"
    assert processor.utilization is not None
    assert 0 <= processor.utilization <= 1
