"""Meters of the GPUs and the processor: memory, load, power, and energy since somebody looked."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil

from .nvidia import GpuReader, open_nvml

POWERCAP = Path("/sys/class/powercap")
_LONGEST_GAP = 15.0
"""Seconds between two readings beyond which nobody can say what was drawn meanwhile."""


class DeviceGauges(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU or the processor; bytes, watts and a fraction, null where there is no meter.

    `joules` counts since the daemon began to look.
    """

    name: str
    kind: str
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: float | None = None
    watts: float | None = None
    joules: float | None = None


class EnergyCount:
    """Joules since the first reading, from a counter, or else from watts."""

    def __init__(self) -> None:
        self.joules: float | None = None
        self._counter: float | None = None
        self._at = 0.0

    def observe(self, counter: float | None, watts: float | None, now: float) -> None:
        """Take in what a device says at `now`, seconds of any clock; a counter may begin anew."""
        gap = now - self._at
        if counter is not None:
            before = self._counter if self._counter is not None else counter
            self._add(counter - before if counter >= before else counter)
            self._counter = counter
        elif watts is not None:
            self._add(watts * gap if self.joules is not None and gap <= _LONGEST_GAP else 0.0)
        self._at = now

    def _add(self, joules: float) -> None:
        self.joules = (self.joules or 0.0) + joules


class PackagePower:
    """The processor's energy as RAPL counts it, which often only root may read."""

    def __init__(self, folder: Path = POWERCAP) -> None:
        self._folder = folder
        self._count = EnergyCount()
        self._before: tuple[float, float] | None = None

    def read(self, now: float) -> tuple[float | None, float | None]:
        """Watts since the last reading, and joules since the first one."""
        counter = self._counter()
        self._count.observe(counter, None, now)
        joules, before = self._count.joules, self._before
        if counter is None or joules is None:
            return None, None
        self._before = now, joules
        if before is None or not 0 < now - before[0] <= _LONGEST_GAP:
            return None, joules
        return (joules - before[1]) / (now - before[0]), joules

    def _counter(self) -> float | None:
        """Joules of all packages; what is inside of them is not counted twice."""
        total, found = 0, False
        for zone in sorted(self._folder.glob("intel-rapl:*")):
            if zone.name.count(":") != 1:
                continue
            try:
                total += int((zone / "energy_uj").read_text())
            except (OSError, ValueError):
                return None
            found = True
        return total / 1e6 if found else None


class DeviceMeters:
    """Reads every device there is; blocking, and used from one thread at a time."""

    def __init__(
        self,
        open_gpus: Callable[[], GpuReader | None] = open_nvml,
        package: PackagePower | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The GPUs' driver is looked for at the first reading."""
        self._open_gpus = open_gpus
        self._gpus: GpuReader | None = None
        self._opened = False
        self._package = package or PackagePower()
        self._counts: list[EnergyCount] = []
        self._clock = clock

    def read(self) -> list[DeviceGauges]:
        """The GPUs, then the processor."""
        if not self._opened:
            self._opened = True
            self._gpus = self._open_gpus()
        now = self._clock()
        return [*self._read_gpus(now), self._read_processor(now)]

    def _read_gpus(self, now: float) -> list[DeviceGauges]:
        readings = self._gpus.read() if self._gpus is not None else []
        self._counts += [EnergyCount() for _ in readings[len(self._counts) :]]
        gauges: list[DeviceGauges] = []
        for reading, count in zip(readings, self._counts, strict=False):
            count.observe(reading.joules, reading.watts, now)
            gauges.append(
                DeviceGauges(
                    name=reading.name,
                    kind="gpu",
                    memory_total=reading.memory_total,
                    memory_used=reading.memory_used,
                    utilization=reading.utilization,
                    watts=reading.watts,
                    joules=count.joules,
                )
            )
        return gauges

    def _read_processor(self, now: float) -> DeviceGauges:
        watts, joules = self._package.read(now)
        return DeviceGauges(
            name="CPU",
            kind="cpu",
            utilization=psutil.cpu_percent() / 100,
            watts=watts,
            joules=joules,
        )
