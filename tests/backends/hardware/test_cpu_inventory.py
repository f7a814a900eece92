"""CPU inventory and thread plans from fake `/proc` and `/sys` files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ingle.backends.hardware.cpu_inventory import (
    apple_inventory,
    counted_inventory,
    cpu_quota,
    linux_inventory,
    read_inventory,
)
from ingle.backends.hardware.thread_plan import ThreadPlan, plan_threads

pytestmark = pytest.mark.quick

Machine = Callable[[Mapping[str, object]], Path]
CPU = "sys/devices/system/cpu/cpu{}"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Write the files of a machine below a temporary root."""

    def write(files: Mapping[str, object]) -> Path:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
        return tmp_path

    return write


def siblings(*cores: str) -> dict[str, object]:
    """The `thread_siblings_list` of every CPU, given one list per core."""
    files: dict[str, object] = {}
    for core in cores:
        first, _, last = core.partition("-")
        for cpu in range(int(first), int(last or first) + 1):
            files[f"{CPU.format(cpu)}/topology/thread_siblings_list"] = core
    return files


def per_cpu(name: str, *values: int) -> dict[str, object]:
    """One value for every CPU."""
    return {f"{CPU.format(cpu)}/{name}": value for cpu, value in enumerate(values)}


def plan(root: Path, cpus: int, machine: str = "x86_64") -> ThreadPlan:
    return plan_threads(linux_inventory(root, range(cpus), machine))


# A Core i7-13700H: six performance cores with two threads each, eight efficiency cores.
HYBRID = siblings(*(f"{n}-{n + 1}" for n in range(0, 12, 2)), *(str(n) for n in range(12, 20))) | {
    "sys/devices/cpu_core/cpus": "0-11",
    "sys/devices/cpu_atom/cpus": "12-19",
}


def test_hybrid_intel_uses_performance_cores(machine: Machine) -> None:
    assert plan(machine(HYBRID), 20) == ThreadPlan(6, frozenset(range(12)), hybrid=True)


def test_affinity_mask_limits_the_cores(machine: Machine) -> None:
    root = machine(HYBRID)
    assert plan_threads(linux_inventory(root, range(12, 16), "x86_64")) == ThreadPlan(4)
    assert plan_threads(linux_inventory(root, [0, 1, 2], "x86_64")) == ThreadPlan(2)


def test_big_little_cores_by_capacity(machine: Machine) -> None:
    """An RK3588: four Cortex-A55, then four Cortex-A76."""
    files = siblings(*map(str, range(8))) | per_cpu("cpu_capacity", *[414] * 4, *[1024] * 4)
    files |= per_cpu("cpufreq/cpuinfo_max_freq", *[1800000] * 4, *[2400000] * 4)
    expected = ThreadPlan(4, frozenset(range(4, 8)), hybrid=True)
    assert plan(machine(files), 8, "aarch64") == expected


def test_little_cores_are_excluded_from_three_kinds(machine: Machine) -> None:
    """A Tensor G3: four little cores, four middle ones worth a thread, one prime core."""
    files = siblings(*map(str, range(9)))
    files |= per_cpu("cpu_capacity", *[174] * 4, *[615] * 4, 1024)
    expected = ThreadPlan(5, frozenset(range(4, 9)), hybrid=True)
    assert plan(machine(files), 9, "aarch64") == expected


def test_big_little_cores_by_frequency(machine: Machine) -> None:
    files = siblings(*map(str, range(4)))
    files |= per_cpu("cpufreq/cpuinfo_max_freq", 1800000, 1800000, 2400000, 2400000)
    assert plan(machine(files), 4, "aarch64").cpus == {2, 3}


def test_x86_cores_with_different_clocks_are_all_used(machine: Machine) -> None:
    """A Ryzen whose compact cores reach two thirds of the others."""
    files = siblings("0-1", "2-3", "4-5", "6-7")
    files |= per_cpu("cpufreq/cpuinfo_max_freq", *[5100000] * 4, *[3300000] * 4)
    assert plan(machine(files), 8) == ThreadPlan(4)
    files |= per_cpu("cpu_capacity", *[1024] * 4, *[662] * 4)
    assert plan(machine(files), 8) == ThreadPlan(4)


def test_hyper_threads_are_counted_once(machine: Machine) -> None:
    files = {
        f"{CPU.format(cpu)}/topology/thread_siblings_list": f"{cpu % 64},{cpu % 64 + 64}"
        for cpu in range(128)
    }
    root = machine(files)
    assert plan(root, 128) == ThreadPlan(64)
    masked = linux_inventory(root, [0, 1, 64, 65], "x86_64")
    assert plan_threads(masked) == ThreadPlan(2), "two cores with two threads each"


def test_virtual_machine_without_a_quota(machine: Machine) -> None:
    files = siblings("0", "1") | per_cpu("cpu_capacity", 1024, 1024)
    root = machine(files | {"proc/self/cgroup": "4:memory:/job\n1:cpu:/\n0::/"})
    assert plan(root, 2) == ThreadPlan(2)


def test_missing_topology_counts_all_cpus(tmp_path: Path) -> None:
    assert plan(tmp_path, 3) == ThreadPlan(3)


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/"}, None),
        ({}, None),
        # The tightest limit of all parent groups applies.
        (
            {
                "proc/self/cgroup": "0::/user.slice/app.scope",
                "sys/fs/cgroup/user.slice/cpu.max": "200000 100000",
                "sys/fs/cgroup/user.slice/app.scope/cpu.max": "400000 100000",
            },
            2.0,
        ),
        # A container that sees the path on its host but only its own files.
        (
            {
                "proc/self/cgroup": "12:cpuset:/docker/4f\n3:cpu,cpuacct:/docker/4f",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/job",
                "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        # Joined from another namespace: the path leads outside the visible tree.
        ({"proc/self/cgroup": "0::/../other", "sys/fs/cgroup/cpu.max": "50000 100000"}, 0.5),
        (
            {"proc/self/cgroup": "0::/a", "sys/fs/cgroup/unified/a/cpu.max": "100000 100000"},
            1.0,
        ),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "junk"}, None),
    ],
)
def test_cpu_quota_of_cgroups(
    machine: Machine, files: dict[str, object], quota: float | None
) -> None:
    assert cpu_quota(machine(files)) == quota


def test_cpu_quota_limits_the_threads(machine: Machine) -> None:
    files = siblings(*map(str, range(64)))
    files |= {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"}
    assert plan(machine(files), 64) == ThreadPlan(2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # An M3 Pro, and an Intel Mac.
        (
            {"hw.perflevel0.physicalcpu": 6, "hw.perflevel1.physicalcpu": 6, "hw.physicalcpu": 12},
            ThreadPlan(6, None, hybrid=True),
        ),
        ({"hw.physicalcpu": 8, "hw.logicalcpu": 16}, ThreadPlan(8)),
        ({}, ThreadPlan(1)),
    ],
)
def test_apple_perflevels(values: dict[str, int], expected: ThreadPlan) -> None:
    assert plan_threads(apple_inventory(values.get)) == expected


@pytest.mark.parametrize(
    ("physical", "usable", "threads"), [(8, 16, 8), (8, 4, 4), (None, 6, 6), (None, 0, 1)]
)
def test_counted_inventory(physical: int | None, usable: int, threads: int) -> None:
    assert plan_threads(counted_inventory(physical, usable)).threads == threads


def test_inventory_of_this_machine() -> None:
    found = read_inventory()
    assert 1 <= plan_threads(found).threads <= (os.cpu_count() or 1)
    if sys.platform == "linux":
        assert {cpu.number for cpu in found.cpus} == os.sched_getaffinity(0)
