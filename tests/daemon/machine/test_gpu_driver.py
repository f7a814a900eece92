"""Tests of a driver that comes and goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ingle.backends.hardware.nvml import NvmlReader
from ingle.daemon.machine.gpu_driver import ASK_AGAIN_SECONDS, GpuDriver


class Door:
    """A driver's library: whether it opens, and what became of what was open."""

    def __init__(self) -> None:
        self.opens = True
        self.asked = 0
        self.closed = 0
        self.now = 0.0

    def open(self) -> Door | None:
        self.asked += 1
        return self if self.opens else None

    def close(self) -> None:
        self.closed += 1


def open_driver(door: Door) -> GpuDriver:
    return GpuDriver(cast("Callable[[], NvmlReader | None]", door.open), lambda: door.now)


def look(driver: GpuDriver) -> object:
    with driver.opened() as gpus:
        return gpus


def test_one_that_fails_is_asked_again_after_a_while() -> None:
    door = Door()
    driver = open_driver(door)
    driver.hold(True)
    door.opens = False
    assert look(driver) is None
    assert look(driver) is None
    assert door.asked == 1
    door.opens, door.now = True, ASK_AGAIN_SECONDS
    assert look(driver) is door
    driver.failed()
    assert door.closed == 1
    assert look(driver) is None
    door.now *= 2
    assert look(driver) is door


def test_one_that_was_closed_is_opened_again_at_once() -> None:
    door = Door()
    driver = open_driver(door)
    assert look(driver) is door
    assert door.closed == 1
    assert look(driver) is door
