"""Reading host, process and GPU memory, and waiting for memory to be released."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import cast

import psutil
import pytest

from ingle.backends.hardware.machine import Gpu, GpuProcess
from ingle.backends.hardware.nvml import NvmlReader
from ingle.daemon.machine.memory_reader import (
    MemoryMeter,
    MemorySnapshot,
    ProcessMemory,
    process_tree,
    wait_for_release,
)
from ingle.models.fit.memory_needs import MemoryNeeds

pytestmark = pytest.mark.quick

GIB = 2**30


def test_reads_memory_of_the_machine_and_this_process() -> None:
    snapshot = MemorySnapshot.read()
    assert 0 < snapshot.daemon_rss < snapshot.total
    assert 0 < snapshot.available <= snapshot.total
    memory = ProcessMemory.read(os.getpid())
    assert 0 < memory.private <= memory.resident
    assert ProcessMemory.read(None) == ProcessMemory(0, 0)
    assert ProcessMemory.read(2**22 + 1) == ProcessMemory(0, 0)


def test_a_child_that_has_ended_does_not_hide_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        ended = psutil.Process(child.pid)

    def children(process: psutil.Process, recursive: bool) -> list[psutil.Process]:
        return [ended]

    monkeypatch.setattr(psutil.Process, "children", children)
    assert ProcessMemory.read(os.getpid(), with_children=True).private > 0


def test_usable_memory_keeps_a_reserve() -> None:
    assert MemorySnapshot(total=10 * GIB, available=8 * GIB).usable.host == 8 * GIB - GIB // 2
    assert MemorySnapshot(total=100 * GIB, available=8 * GIB).usable.host == 7 * GIB
    assert MemorySnapshot(total=10 * GIB, available=1).usable.host < 0


class FakeGpus:
    """A driver with two GPUs that counts open and close calls."""

    def __init__(self) -> None:
        self.opened = self.closed = 0

    def open(self) -> FakeGpus:
        self.opened += 1
        return self

    def close(self) -> None:
        self.closed += 1

    def describe(self, name_of: Callable[[int], str] | None = None) -> list[Gpu]:
        processes = [GpuProcess(pid=7, memory=3 * GIB), GpuProcess(pid=8, memory=None)]
        first = Gpu(name="first", vendor="nvidia", uuid="GPU-1", memory_total=8 * GIB)
        second = Gpu(
            name="second",
            vendor="nvidia",
            uuid="GPU-2",
            memory_total=24 * GIB,
            memory_free=20 * GIB,
            processes=processes,
        )
        return [first, second]


def test_visible_gpu_is_read_and_the_driver_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-2")
    driver = FakeGpus()
    meter = MemoryMeter(cast("Callable[[], NvmlReader]", driver.open))
    snapshot = meter()
    assert (snapshot.gpu_total, snapshot.gpu_available) == (24 * GIB, 20 * GIB)
    assert snapshot.gpu_processes == {7: 3 * GIB}
    assert snapshot.usable.gpu == 20 * GIB - GIB // 2
    assert (driver.opened, driver.closed) == (1, 1)
    meter.hold(True)
    meter()
    meter()
    assert (driver.opened, driver.closed) == (2, 1)
    meter.hold(False)
    assert (driver.opened, driver.closed) == (2, 2)


def test_all_visible_gpus_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    snapshot = MemoryMeter(cast("Callable[[], NvmlReader]", FakeGpus().open))()
    assert snapshot.usable.gpus == (-(8 * GIB // 20), 20 * GIB - GIB // 2)
    assert snapshot.held_by([6, 7]) == (None, 3 * GIB)


def test_children_belong_to_the_tree_of_a_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert {os.getpid(), child.pid} <= set(process_tree(os.getpid()))
        child.kill()
    assert process_tree(None) == process_tree(2**22 + 1) == []


def test_missing_gpu_driver_is_queried_once() -> None:
    calls: list[int] = []
    meter = MemoryMeter(lambda: calls.append(1))
    assert meter().gpu_total == meter().gpu_total == 0
    assert calls == [1]


async def test_wait_for_release_polls_until_enough_is_free() -> None:
    readings = iter([1, 2, 5, 9])
    assert await wait_for_release(
        MemoryNeeds(5), lambda: MemoryNeeds(next(readings)), interval=0.001
    )
    assert next(readings) == 9


async def test_wait_for_release_times_out() -> None:
    assert not await wait_for_release(
        MemoryNeeds(5), lambda: MemoryNeeds(4), patience=0.01, interval=0.001
    )
