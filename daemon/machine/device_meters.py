"""Readings of GPUs and the processor: memory, load, power and energy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ingle.backends.hardware.nvml import GpuReading, NvmlReader, open_nvml

from ..client.daemon_types import DeviceGauges
from .gpu_driver import GpuDriver

POWERCAP = Path("/sys/class/powercap")
_LONGEST_GAP = 15.0
"""Longest gap in seconds between two readings over which power is integrated."""


class EnergyCount:
    """Energy in joules since the first reading, from a counter, else integrated from watts."""

    def __init__(self) -> None:
        self.joules: float | None = None
        self._counter: float | None = None
        self._at = 0.0

    def observe(
        self, counter: float | None, watts: float | None, now: float, *, wraps_at: float = 0.0
    ) -> None:
        """Add a device's reading at `now`, in seconds of any monotonic clock.

        A counter that goes back has restarted, at `wraps_at` if that is known.
        """
        gap = now - self._at
        if counter is not None:
            before = self._counter if self._counter is not None else counter
            rest = max(0.0, wraps_at - before)
            self._add(counter - before if counter >= before else rest + counter)
            self._counter = counter
        elif watts is not None:
            self._add(watts * gap if self.joules is not None and gap <= _LONGEST_GAP else 0.0)
        self._at = now

    def _add(self, joules: float) -> None:
        self.joules = (self.joules or 0.0) + joules


class PackagePower:
    """The processor's energy as reported by RAPL, which often only root may read."""

    def __init__(self, folder: Path = POWERCAP) -> None:
        self._folder = folder
        self._counts: dict[str, EnergyCount] = {}
        self._before: tuple[float, float] | None = None

    def read(self, now: float) -> tuple[float | None, float | None]:
        """Return the watts since the last reading, and the joules since the first one."""
        joules, before = self._joules(now), self._before
        if joules is None:
            return None, None
        self._before = now, joules
        if before is None or not 0 < now - before[0] <= _LONGEST_GAP:
            return None, joules
        return (joules - before[1]) / (now - before[0]), joules

    def _joules(self, now: float) -> float | None:
        """Return the sum over all packages, whose counters wrap.

        Domains inside a package, and groups of packages, are left out, since they would be counted
        twice.
        """
        for zone in sorted(self._folder.glob("intel-rapl:*")):
            try:
                if not (zone / "name").read_text().startswith("package"):
                    continue
                counter = int((zone / "energy_uj").read_text())
                most = int((zone / "max_energy_range_uj").read_text())
            except (OSError, ValueError):
                return None
            count = self._counts.setdefault(zone.name, EnergyCount())
            count.observe(counter / 1e6, None, now, wraps_at=most / 1e6)
        return sum(count.joules or 0.0 for count in self._counts.values()) if self._counts else None


class DeviceMeters:
    """Reads all devices; blocking, safe in any thread.

    `hold` says whether more readings will follow (see `GpuDriver`). `watts` is what the whole
    machine draws while it works, 0 to add what the devices report.
    """

    def __init__(
        self,
        open_gpus: Callable[[], NvmlReader | None] = open_nvml,
        package: PackagePower | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        watts: float = 0.0,
    ) -> None:
        self.watts = watts
        self._driver = GpuDriver(open_gpus, clock)
        self.hold = self._driver.hold
        self._package = package or PackagePower()
        self._counts: list[EnergyCount] = []
        self._clock = clock

    def read(self) -> list[DeviceGauges]:
        """Return the gauges of the GPUs, then of the processor."""
        with self._driver.opened() as driver:
            now = self._clock()
            return [*self._read_gpus(driver, now), self._read_processor(now)]

    def joules(self) -> float | None:
        """Return the joules of a machine that always works, since any moment; None without a
        meter.
        """
        if self.watts:
            return self.watts * self._clock()
        counted = [device.joules for device in self.read() if device.joules is not None]
        return sum(counted) if counted else None

    def _read_gpus(self, driver: NvmlReader | None, now: float) -> list[DeviceGauges]:
        readings = driver.read() if driver is not None else []
        if readings and all(reading == GpuReading(name=reading.name) for reading in readings):
            self._driver.failed()  # it was updated while open, or has lost its GPU
        self._counts += [EnergyCount() for _ in readings[len(self._counts) :]]
        gauges: list[DeviceGauges] = []
        for reading, count in zip(readings, self._counts, strict=False):
            count.observe(reading.joules, reading.watts, now)
            since_start: dict[str, Any] = asdict(reading) | {"joules": count.joules}
            gauges.append(DeviceGauges(kind="gpu", **since_start))
        return gauges

    def _read_processor(self, now: float) -> DeviceGauges:
        watts, joules = self._package.read(now)
        import psutil  # takes milliseconds of the daemon's start

        return DeviceGauges(
            name="CPU",
            kind="cpu",
            utilization=psutil.cpu_percent() / 100,
            watts=watts,
            joules=joules,
        )
