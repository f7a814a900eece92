from __future__ import annotations

import pytest

from ingle.backends.hardware.thread_plan import CpuInventory, LogicalCpu, ThreadPlan, plan_threads


def inventory(
    fast_cores: int, slow_cores: int = 0, *, per_core: int = 1, quota: float | None = None
) -> CpuInventory:
    """Fast cores of `per_core` hyper-threads each, then slow ones of one."""
    fast = [LogicalCpu(n, n // per_core * per_core) for n in range(fast_cores * per_core)]
    slow = [LogicalCpu(len(fast) + n, len(fast) + n, fast=False) for n in range(slow_cores)]
    return CpuInventory((*fast, *slow), quota=quota, can_pin=True)


@pytest.mark.parametrize(
    ("cpus", "threads"),
    [
        (inventory(1), 1),
        (inventory(2), 2),
        (inventory(64, per_core=2), 64),
        (inventory(8, 16, per_core=2), 8),
        (inventory(0, 4), 4),
    ],
)
def test_one_thread_a_fast_physical_core(cpus: CpuInventory, threads: int) -> None:
    assert plan_threads(cpus).threads == threads


@pytest.mark.parametrize(
    ("quota", "threads"), [(0.5, 1), (1.0, 1), (1.5, 2), (4.0, 4), (200.0, 64)]
)
def test_a_quota_bounds_the_threads(quota: float, threads: int) -> None:
    assert plan_threads(inventory(64, per_core=2, quota=quota)).threads == threads


def test_only_a_hybrid_processor_pins() -> None:
    """And to whole cores: the threads beside those that compute run on the hyper-threads."""
    assert plan_threads(inventory(2, 3, per_core=2)).cpus == {0, 1, 2, 3}
    assert plan_threads(inventory(8, per_core=2)).cpus is None
    assert plan_threads(inventory(0, 4)).cpus is None


def test_what_was_asked_for_is_taken() -> None:
    hybrid = inventory(4, 4, quota=2.0)
    assert plan_threads(hybrid, wanted=3) == ThreadPlan(3, frozenset(range(4)), hybrid=True)
    # More threads than there are fast cores need the others.
    assert plan_threads(hybrid, wanted=6) == ThreadPlan(6, None, hybrid=False)


def test_a_plan_reads_well() -> None:
    assert str(plan_threads(inventory(1))) == "1 thread"
    assert str(plan_threads(inventory(2))) == "2 threads"
    assert str(plan_threads(inventory(6, 8))) == "6 P-cores"
