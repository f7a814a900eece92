"""`GpuDriver`: opening, closing and retrying the driver library."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ingle.backends.hardware.nvml import NvmlReader
from ingle.daemon.machine.gpu_driver import ASK_AGAIN_SECONDS, GpuDriver


class FakeLibrary:
    """A fake driver library that counts open and close calls and may fail to open."""

    def __init__(self) -> None:
        self.opens = True
        self.open_calls = 0
        self.closed = 0
        self.now = 0.0

    def open(self) -> FakeLibrary | None:
        self.open_calls += 1
        return self if self.opens else None

    def close(self) -> None:
        self.closed += 1


def open_driver(library: FakeLibrary) -> GpuDriver:
    return GpuDriver(cast("Callable[[], NvmlReader | None]", library.open), lambda: library.now)


def open_once(driver: GpuDriver) -> object:
    with driver.opened() as gpus:
        return gpus


def test_failed_driver_is_retried_after_a_delay() -> None:
    library = FakeLibrary()
    driver = open_driver(library)
    driver.hold(True)
    library.opens = False
    assert open_once(driver) is None
    assert open_once(driver) is None
    assert library.open_calls == 1
    library.opens, library.now = True, ASK_AGAIN_SECONDS
    assert open_once(driver) is library
    driver.failed()
    assert library.closed == 1
    assert open_once(driver) is None
    library.now *= 2
    assert open_once(driver) is library


def test_closed_driver_is_reopened_immediately() -> None:
    library = FakeLibrary()
    driver = open_driver(library)
    assert open_once(driver) is library
    assert library.closed == 1
    assert open_once(driver) is library
