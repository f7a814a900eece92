"""Tests of reading memory and of waiting for it."""

from __future__ import annotations

import os

from ingle.daemon.memory import MemorySnapshot, ProcessMemory, wait_for_release

GIB = 2**30


def test_the_machine_and_this_process() -> None:
    snapshot = MemorySnapshot.read()
    assert 0 < snapshot.daemon_rss < snapshot.total
    assert 0 < snapshot.available <= snapshot.total
    memory = ProcessMemory.read(os.getpid())
    assert 0 < memory.private <= memory.resident
    assert ProcessMemory.read(None) == ProcessMemory(0, 0)
    assert ProcessMemory.read(2**22 + 1) == ProcessMemory(0, 0)


def test_some_memory_stays_for_everything_else() -> None:
    assert MemorySnapshot(total=10 * GIB, available=8 * GIB).usable == 8 * GIB - GIB // 2
    assert MemorySnapshot(total=100 * GIB, available=8 * GIB).usable == 7 * GIB
    assert MemorySnapshot(total=10 * GIB, available=1).usable == 0


async def test_memory_that_comes_back_late_is_waited_for() -> None:
    readings = iter([1, 2, 5, 9])
    assert await wait_for_release(5, lambda: next(readings), interval=0.001)
    assert next(readings) == 9


async def test_memory_that_never_comes_back_is_given_up() -> None:
    assert not await wait_for_release(5, lambda: 4, patience=0.01, interval=0.001)
