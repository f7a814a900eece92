"""Decides how many threads compute on the CPU, and on which cores: a pure function."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogicalCpu:
    """One CPU as the system numbers it; hyper-threads of one physical core share `core`."""

    number: int
    core: int
    fast: bool = True


@dataclass(frozen=True, slots=True)
class CpuInventory:
    """The CPUs this process may run on, and how many it may use on average (`quota`).

    `can_pin` says whether the numbers are valid in an affinity mask.
    """

    cpus: tuple[LogicalCpu, ...]
    quota: float | None = None
    can_pin: bool = False


@dataclass(frozen=True, slots=True)
class ThreadPlan:
    """The number of compute threads and the CPUs to pin them to; None lets the system choose.

    `hybrid` means that slower cores are left out.
    """

    threads: int
    cpus: frozenset[int] | None = None
    hybrid: bool = False

    def __str__(self) -> str:
        kind = "P-core" if self.hybrid else "thread"
        return f"{self.threads} {kind}{'s' if self.threads > 1 else ''}"


def plan_threads(inventory: CpuInventory, wanted: int = 0) -> ThreadPlan:
    """Plan one thread per fast physical core, up to the quota; `wanted` above 0 overrides.

    This is llama.cpp's own rule (`common_cpu_get_num_math`), for prefill and decode: a step ends
    with its slowest thread, so hyper-threads and efficiency cores would delay the others.
    """
    fast = [cpu for cpu in inventory.cpus if cpu.fast] or list(inventory.cpus)
    cores = len({cpu.core for cpu in fast})
    quota = inventory.quota
    # Rounded up: a surplus thread is sometimes throttled, a missing one wastes time.
    limit = cores if quota is None else min(cores, math.ceil(quota))
    threads = wanted or max(1, limit)
    hybrid = len(fast) < len(inventory.cpus) and threads <= cores
    cpus = frozenset(cpu.number for cpu in fast) if hybrid and inventory.can_pin else None
    return ThreadPlan(threads, cpus, hybrid)
