"""Lists the CPUs that this process may use, on Linux, macOS and Windows."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import psutil

from .cgroups import control_groups
from .sysctl import sysctl_number
from .text_files import read_number, read_text
from .thread_plan import CpuInventory, LogicalCpu

# An efficiency core computes a quarter to a half of a performance core; cores that merely clock
# differently, such as AMD's compact ones or a favoured core, are all worth a thread.
_LEAST_CAPACITY = 0.5
_LEAST_FREQUENCY = 0.8


def read_inventory() -> CpuInventory:
    """Return the CPUs this process may use now."""
    if sys.platform == "linux":
        return linux_inventory(Path("/"), os.sched_getaffinity(0), platform.machine())
    if sys.platform == "darwin":
        return apple_inventory(sysctl_number)
    usable = os.cpu_count() or 1
    if sys.platform == "win32":
        usable = len(psutil.Process().cpu_affinity())
    return counted_inventory(psutil.cpu_count(logical=False), usable)


def linux_inventory(root: Path, allowed: Collection[int], machine: str) -> CpuInventory:
    """Read sysfs and the control groups below `root`, for the CPUs of an affinity mask."""
    fast = _fast_cpus(root / "sys/devices", allowed, machine)
    cpus: list[LogicalCpu] = []
    for cpu in sorted(allowed):
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = _cpu_list(read_text(topology / "thread_siblings_list"))
        cpus.append(LogicalCpu(cpu, core=min(siblings, default=cpu), fast=cpu in fast))
    return CpuInventory(tuple(cpus), quota=cpu_quota(root), can_pin=True)


def apple_inventory(sysctl: Callable[[str], int | None]) -> CpuInventory:
    """Read the performance levels of Apple's processors; Intel Macs have none.

    macOS takes no affinity masks: its scheduler keeps busy threads on performance cores.
    """
    fast = sysctl("hw.perflevel0.physicalcpu")
    slow = sysctl("hw.perflevel1.physicalcpu") if fast else 0
    fast = fast or sysctl("hw.physicalcpu") or 1
    cores = fast + (slow or 0)
    return CpuInventory(tuple(LogicalCpu(core, core, core < fast) for core in range(cores)))


def counted_inventory(physical: int | None, usable: int) -> CpuInventory:
    """Build an inventory from counts alone: physical cores if known, at most the usable CPUs."""
    cores = max(1, min(physical or usable, usable))
    return CpuInventory(tuple(LogicalCpu(core, core) for core in range(cores)))


def cpu_quota(root: Path) -> float | None:
    """Return the CPUs that the tightest control group of this process allows; None without
    a limit.
    """
    limits: list[float] = []
    for version, folder in control_groups(root, "cpu"):
        if version == 2:
            limits += _limit(*read_text(folder / "cpu.max").split())
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            limits += _limit(*(read_text(folder / name) for name in names))
    return min(limits, default=None)


def _limit(quota: str = "", period: str = "") -> list[float]:
    """Return the limit given by two numbers of microseconds; empty for "max", -1 and nothing."""
    if quota.isdecimal() and period.isdecimal() and int(period):
        return [int(quota) / int(period)]
    return []


def _fast_cpus(devices: Path, allowed: Collection[int], machine: str) -> set[int]:
    """Return the CPUs that are not efficiency cores."""
    # Intel's hybrid processors have a performance counter unit for each kind of core.
    performance = set(_cpu_list(read_text(devices / "cpu_core/cpus")))
    if performance:
        return performance & set(allowed)
    capacity, frequency = "cpu_capacity", "cpufreq/cpuinfo_max_freq"
    if (rates := _rates(devices, allowed, capacity)) is not None:
        least = _LEAST_CAPACITY
    elif machine.startswith(("aarch64", "arm")) and (
        (rates := _rates(devices, allowed, frequency)) is not None
    ):
        least = _LEAST_FREQUENCY
    else:
        return set(allowed)
    fastest = max(rates.values())
    return {cpu for cpu, rate in rates.items() if rate >= least * fastest}


def _rates(devices: Path, allowed: Collection[int], name: str) -> dict[int, int] | None:
    """Return one number for every CPU, None unless all have it."""
    rates: dict[int, int] = {}
    for cpu in allowed:
        rate = read_number(devices / f"system/cpu/cpu{cpu}" / name)
        if rate is None:
            return None
        rates[cpu] = rate
    return rates or None


def _cpu_list(text: str) -> list[int]:
    """Parse a CPU list such as "0-3,8"."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            numbers += range(int(first), int(last if last.isdecimal() else first) + 1)
    return numbers
