"""Number and pinning of compute threads."""

from __future__ import annotations

import pytest

from ingle.backends.hardware.thread_plan import CpuInventory, LogicalCpu, ThreadPlan, plan_threads


def inventory(
    fast_cores: int, slow_cores: int = 0, *, per_core: int = 1, quota: float | None = None
) -> CpuInventory:
    """Fast cores with `per_core` hyper-threads each, followed by slow single-threaded ones."""
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
def test_one_thread_per_fast_physical_core(cpus: CpuInventory, threads: int) -> None:
    assert plan_threads(cpus).threads == threads


@pytest.mark.parametrize(
    ("quota", "threads"), [(0.5, 1), (1.0, 1), (1.5, 2), (4.0, 4), (200.0, 64)]
)
def test_quota_limits_the_threads(quota: float, threads: int) -> None:
    assert plan_threads(inventory(64, per_core=2, quota=quota)).threads == threads


def test_only_hybrid_cpus_pin_threads() -> None:
    """Pinned to whole cores, whose hyper-threads run the threads that do not compute."""
    assert plan_threads(inventory(2, 3, per_core=2)).cpus == {0, 1, 2, 3}
    assert plan_threads(inventory(8, per_core=2)).cpus is None
    assert plan_threads(inventory(0, 4)).cpus is None


def test_requested_thread_count_is_used() -> None:
    hybrid = inventory(4, 4, quota=2.0)
    assert plan_threads(hybrid, wanted=3) == ThreadPlan(3, frozenset(range(4)), hybrid=True)
    # Beyond the number of fast cores, the slow ones are used too.
    assert plan_threads(hybrid, wanted=6) == ThreadPlan(6, None, hybrid=False)


def test_thread_plan_as_text() -> None:
    assert str(plan_threads(inventory(1))) == "1 thread"
    assert str(plan_threads(inventory(2))) == "2 threads"
    assert str(plan_threads(inventory(6, 8))) == "6 P-cores"
