"""What the processors did meanwhile: for our own processes, and for everybody else's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import psutil


@dataclass(frozen=True)
class CpuSeconds:
    """Processor time in user and in system mode."""

    user: float = 0.0
    system: float = 0.0

    @property
    def total(self) -> float:
        """Both together."""
        return self.user + self.system

    def __sub__(self, other: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(self.user - other.user, self.system - other.system)

    def __add__(self, other: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(self.user + other.user, self.system + other.system)


def process_seconds(root: int) -> dict[tuple[int, str], CpuSeconds]:
    """Processor time of every live process of a tree, by pid and role."""
    try:
        parent = psutil.Process(root)
        family = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return {}
    seconds: dict[tuple[int, str], CpuSeconds] = {}
    for process in family:
        try:
            times = process.cpu_times()
            seconds[process.pid, _role(process, root)] = CpuSeconds(times.user, times.system)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return seconds


def spent(
    before: dict[tuple[int, str], CpuSeconds], after: dict[tuple[int, str], CpuSeconds]
) -> dict[str, CpuSeconds]:
    """What each role used between two readings; a process that ended meanwhile is not counted."""
    used: dict[str, CpuSeconds] = {}
    for key, now in after.items():
        _, role = key
        used[role] = used.get(role, CpuSeconds()) + (now - before.get(key, CpuSeconds()))
    return used


def _role(process: psutil.Process, root: int) -> str:
    if process.pid == root:
        return "server"
    words = process.cmdline()
    modules = [word for before, word in pairwise(words) if before == "-m"]
    return modules[0].rsplit(".", 1)[-1] if modules else process.name()


class CpuMeter:
    """The share of all processors that processes outside some trees use, from its making on."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = list(roots)
        self._at = time.perf_counter()
        self._own = self._read_own()
        self._busy = _busy_seconds()

    def foreign_share(self) -> float:
        """From 0 to 1; the time of this process and of the trees is taken away."""
        busy = _busy_seconds() - self._busy
        own = sum(used.total for used in spent(self._own, self._read_own()).values())
        elapsed = time.perf_counter() - self._at
        return min(1.0, max(0.0, busy - own) / (elapsed * (psutil.cpu_count() or 1)))

    def _read_own(self) -> dict[tuple[int, str], CpuSeconds]:
        own = process_seconds(os.getpid())  # servers are children of the bench, unless detached
        for root in self._roots:
            own |= {key: value for key, value in process_seconds(root).items() if key not in own}
        return own


@dataclass(frozen=True)
class IdleGate:
    """Waits for a quiet machine, but not for ever."""

    max_foreign: float
    patience: float
    """Seconds."""
    window: float = 1.0
    """Seconds that are looked at."""

    def wait(self) -> float:
        """Return the foreign share of the last window, at most `max_foreign` unless it gave up."""
        until = time.perf_counter() + self.patience
        while True:
            meter = CpuMeter([])
            time.sleep(self.window)
            share = meter.foreign_share()
            if share <= self.max_foreign or time.perf_counter() >= until:
                return share


def _busy_seconds() -> float:
    # Time stolen by other virtual machines counts as foreign too.
    times = psutil.cpu_times()
    fields = ("user", "nice", "system", "irq", "softirq", "steal")
    return sum(float(getattr(times, field, 0.0)) for field in fields)
