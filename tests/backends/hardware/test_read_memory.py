"""Memory limits of cgroups v1 and v2, and usable memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from ingle.backends.hardware.machine import HostMemory
from ingle.backends.hardware.read_memory import memory_limit, read_memory

WriteFiles = Callable[[Mapping[str, object]], Path]
GIB = 2**30


def test_cgroup_v2_container_limit(write_files: WriteFiles) -> None:
    """In Docker only the root group is visible; inactive page cache is reclaimable."""
    root = write_files(
        {
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/memory.max": 4 * GIB,
            "sys/fs/cgroup/memory.current": 3 * GIB,
            "sys/fs/cgroup/memory.stat": f"anon {GIB}\ninactive_file {2 * GIB}\nactive_file 0",
        }
    )
    assert memory_limit(root) == (4 * GIB, GIB)


def test_tightest_parent_cgroup_applies(write_files: WriteFiles) -> None:
    """A systemd slice of 8 GiB that is nearly full, containing a service of 4 GiB that is not."""
    slice_, service = "sys/fs/cgroup/user.slice", "sys/fs/cgroup/user.slice/a.service"
    root = write_files(
        {
            "proc/self/cgroup": "0::/user.slice/a.service",
            f"{slice_}/memory.max": 8 * GIB,
            f"{slice_}/memory.current": 7 * GIB,
            f"{service}/memory.max": 4 * GIB,
            f"{service}/memory.current": GIB,
        }
    )
    assert memory_limit(root) == (8 * GIB, 7 * GIB)


def test_cgroup_v1_limit(write_files: WriteFiles) -> None:
    folder = "sys/fs/cgroup/memory/docker/abc"
    root = write_files(
        {
            "proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/abc\n1:cpu:/",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
            f"{folder}/memory.limit_in_bytes": 2 * GIB,
            f"{folder}/memory.usage_in_bytes": GIB,
            f"{folder}/memory.stat": "cache 5\ntotal_inactive_file 1048576",
        }
    )
    assert memory_limit(root) == (2 * GIB, GIB - 2**20)


def test_no_cgroup_limit(write_files: WriteFiles) -> None:
    files = {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "max"}
    assert memory_limit(write_files(files)) == (None, 0)
    assert memory_limit(Path("/nowhere")) == (None, 0)


def test_limit_above_total_memory_is_ignored(write_files: WriteFiles) -> None:
    files = {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": 2**50}
    memory = read_memory(write_files(files))
    assert memory.limit is None
    assert memory.usable_total == memory.total
    assert 0 < memory.usable <= memory.total


def test_sandbox_that_denies_swap_statistics(
    write_files: WriteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(psutil, "swap_memory", refuse)
    memory = read_memory(write_files({}))
    assert memory.total > 0
    assert (memory.swap_total, memory.swap_used) == (0, 0)


def test_limit_reduces_usable_memory() -> None:
    memory = HostMemory(total=64 * GIB, available=50 * GIB, limit=8 * GIB, limit_used=3 * GIB)
    assert (memory.usable_total, memory.usable) == (8 * GIB, 5 * GIB)
