"""Memory watch: reaction to memory pressure and system resume, with simulated readings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.memory.memory_watch import WHY, MemoryWatch

if TYPE_CHECKING:
    from ..conftest import ManagerHarness

    MakeManager = Callable[..., ManagerHarness]

GIB = 2**30


class Clocks:
    """The awake clock and the boot clock, advanced by the test."""

    def __init__(self) -> None:
        self.awake = 100.0
        self.asleep = 0.0
        self.resumes = 0

    def boot(self) -> float:
        return self.awake + self.asleep

    async def resumed(self) -> None:
        self.resumes += 1


@asynccontextmanager
async def watching(harness: ManagerHarness, clocks: Clocks) -> AsyncGenerator[None]:
    watch = MemoryWatch(
        harness.manager.allocator,
        clocks.resumed,
        interval=0.005,
        clock=clocks.boot,
        awake=lambda: clocks.awake,
    )
    watch.follow(True)
    watch.follow(True)
    try:
        yield
    finally:
        watch.follow(False)
        watch.follow(False)


async def load(harness: ManagerHarness, *names: str) -> None:
    for name in names:
        await harness.manager.load(name)


async def test_idle_models_are_evicted_under_memory_pressure(make_manager: MakeManager) -> None:
    harness = make_manager()
    await load(harness, "a", "b")
    reasons: list[str] = []
    with harness.hub.subscribe() as subscription:
        async with watching(harness, Clocks()):
            harness.memory["available"] = GIB
            await harness.until(lambda: harness.states() == {})
        subscription.end()
        async for event in subscription:
            reasons.append(event.data.decode())
    assert sum(WHY in reason for reason in reasons) >= 2


async def test_busy_models_stay_loaded_and_are_logged_once(
    make_manager: MakeManager, caplog: pytest.LogCaptureFixture
) -> None:
    harness = make_manager()
    async with harness.manager.lease("a"), watching(harness, Clocks()):
        harness.memory["available"] = 0
        with caplog.at_level(logging.WARNING, "ingle.daemon"):
            await harness.until(lambda: "no model is idle" in caplog.text)
            await asyncio.sleep(0.05)
        assert caplog.text.count("no model is idle") == 1
        assert harness.states() == {"a": "ready"}


async def test_brief_memory_shortage_evicts_nothing(make_manager: MakeManager) -> None:
    harness = make_manager()
    await load(harness, "a")
    readings = iter([False, True, False, True, False])
    calls: list[bool] = []

    def is_short() -> bool:
        calls.append(next(readings, False))
        return calls[-1]

    harness.manager.allocator.ledger.is_short = is_short
    async with watching(harness, Clocks()):
        await harness.until(lambda: len(calls) > 5)
    assert harness.states() == {"a": "ready"}


async def test_system_resume_is_reported_once(make_manager: MakeManager) -> None:
    harness, clocks = make_manager(), Clocks()
    async with watching(harness, clocks):
        clocks.awake += 3600
        await asyncio.sleep(0.03)
        assert clocks.resumes == 0
        clocks.asleep += 3600
        await harness.until(lambda: clocks.resumes == 1)
        await asyncio.sleep(0.03)
        assert clocks.resumes == 1


async def test_driver_error_does_not_stop_the_watch(
    make_manager: MakeManager, caplog: pytest.LogCaptureFixture
) -> None:
    harness = make_manager()
    await load(harness, "a")
    calls: list[None] = []

    def is_short() -> bool:
        calls.append(None)
        if len(calls) < 4:
            raise OSError("the driver is being updated")
        return False

    harness.manager.allocator.ledger.is_short = is_short
    with caplog.at_level(logging.WARNING, "ingle.daemon"):
        async with watching(harness, Clocks()):
            await harness.until(lambda: len(calls) > 5)
    assert caplog.text.count("Cannot read the machine") == 1
