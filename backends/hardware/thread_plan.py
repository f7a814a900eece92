"""How many threads compute on the CPU, and where: a pure decision over an inventory."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogicalCpu:
    """One CPU as the system numbers them; hyper-threads of one physical core share `core`."""

    number: int
    core: int
    fast: bool = True


@dataclass(frozen=True, slots=True)
class CpuInventory:
    """The CPUs this process may run on, and of how many it may use the whole time (`quota`).

    `can_pin` says whether the numbers are those the system takes for an affinity mask.
    """

    cpus: tuple[LogicalCpu, ...]
    quota: float | None = None
    can_pin: bool = False


@dataclass(frozen=True, slots=True)
class ThreadPlan:
    """The number of compute threads, and the CPUs to keep them on; None lets the system choose.

    `hybrid` says that slower cores are left out.
    """

    threads: int
    cpus: frozenset[int] | None = None
    hybrid: bool = False

    def __str__(self) -> str:
        kind = "P-core" if self.hybrid else "thread"
        return f"{self.threads} {kind}{'s' if self.threads > 1 else ''}"


def plan_threads(inventory: CpuInventory, wanted: int = 0) -> ThreadPlan:
    """One thread a fast physical core, as far as the quota goes; `wanted` above 0 counts instead.

    This is llama.cpp's own rule (`common_cpu_get_num_math`), for prompts as for single tokens: a
    step ends with its slowest thread, so hyper-threads and efficiency cores hold the others up.
    """
    fast = [cpu for cpu in inventory.cpus if cpu.fast] or list(inventory.cpus)
    cores = len({cpu.core for cpu in fast})
    threads = wanted or max(1, min(cores, _whole_cpus(inventory.quota)))
    hybrid = len(fast) < len(inventory.cpus) and threads <= cores
    cpus = frozenset(cpu.number for cpu in fast) if hybrid and inventory.can_pin else None
    return ThreadPlan(threads, cpus, hybrid)


def _whole_cpus(quota: float | None) -> int:
    """Rounded up: a thread too many is throttled at times, one too few leaves time unused."""
    return 2**31 if quota is None else math.ceil(quota)
