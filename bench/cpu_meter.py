"""Measures CPU use of our own processes and of everything else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil


@dataclass(frozen=True)
class CpuUse:
    """Processor time, and how often a thread went to sleep (and had to be woken)."""

    seconds: float = 0.0
    system: float = 0.0
    """The part in system mode; counted in ticks, so coarse."""
    sleeps: int = 0
    """Of the living threads; 0 if the system does not report it."""

    def __sub__(self, other: CpuUse) -> CpuUse:
        return CpuUse(
            self.seconds - other.seconds,
            self.system - other.system,
            max(0, self.sleeps - other.sleeps),
        )

    def __add__(self, other: CpuUse) -> CpuUse:
        return CpuUse(
            self.seconds + other.seconds, self.system + other.system, self.sleeps + other.sleeps
        )


Usage = dict[tuple[int, str], CpuUse]
"""By pid and role."""


def tree_usage(root: int) -> Usage:
    """Return the usage so far of every live process in a tree."""
    try:
        parent = psutil.Process(root)
        family = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return {}
    usage: Usage = {}
    for process in family:
        try:
            usage[process.pid, _role(process, root)] = _process_usage(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError):
            continue  # it ended as we looked
    return usage


def spent(before: Usage, after: Usage) -> dict[str, CpuUse]:
    """Return the use of each role between two readings; processes that ended are not counted."""
    used: dict[str, CpuUse] = {}
    for key, now in after.items():
        _, role = key
        used[role] = used.get(role, CpuUse()) + (now - before.get(key, CpuUse()))
    return used


def _process_usage(process: psutil.Process) -> CpuUse:
    times = process.cpu_times()
    if sys.platform != "linux":
        return CpuUse(times.user + times.system, times.system)
    # Exact to the nanosecond, as clock_getcpuclockid(3) has it; ticks are too coarse for a token.
    exact = time.clock_gettime(~process.pid << 3 | 2)
    sleeps = 0
    for status in Path(f"/proc/{process.pid}/task").glob("*/status"):
        line = next(x for x in status.read_text().splitlines() if x.startswith("voluntary"))
        sleeps += int(line.split()[1])
    return CpuUse(exact, times.system, sleeps)


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
        own = sum(used.seconds for used in spent(self._own, self._read_own()).values())
        elapsed = time.perf_counter() - self._at
        return min(1.0, max(0.0, busy - own) / (elapsed * (psutil.cpu_count() or 1)))

    def _read_own(self) -> Usage:
        own = tree_usage(os.getpid())  # servers are children of the bench, unless detached
        for root in self._roots:
            own |= {key: value for key, value in tree_usage(root).items() if key not in own}
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
