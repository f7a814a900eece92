"""Tests of noticing what others do to the machine, with clocks and memory of the test's own."""

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
    """Two clocks that a test moves."""

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


async def test_idle_models_go_when_a_game_takes_the_memory(make_manager: MakeManager) -> None:
    harness = make_manager()
    await load(harness, "a", "b")
    reasons: list[str] = []
    with harness.hub.subscribe() as told:
        async with watching(harness, Clocks()):
            harness.memory["available"] = GIB
            await harness.until(lambda: harness.states() == {})
        told.end()
        async for event in told:
            reasons.append(event.data.decode())
    assert sum(WHY in reason for reason in reasons) >= 2


async def test_those_in_use_stay_and_are_told_of_once(
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


async def test_what_is_short_for_a_moment_unloads_nobody(make_manager: MakeManager) -> None:
    harness = make_manager()
    await load(harness, "a")
    readings = iter([False, True, False, True, False])
    asked: list[bool] = []

    def is_short() -> bool:
        asked.append(next(readings, False))
        return asked[-1]

    harness.manager.allocator.ledger.is_short = is_short
    async with watching(harness, Clocks()):
        await harness.until(lambda: len(asked) > 5)
    assert harness.states() == {"a": "ready"}


async def test_a_resume_is_told_once(make_manager: MakeManager) -> None:
    harness, clocks = make_manager(), Clocks()
    async with watching(harness, clocks):
        clocks.awake += 3600
        await asyncio.sleep(0.03)
        assert clocks.resumes == 0
        clocks.asleep += 3600
        await harness.until(lambda: clocks.resumes == 1)
        await asyncio.sleep(0.03)
        assert clocks.resumes == 1


async def test_what_a_driver_raises_ends_no_watching(
    make_manager: MakeManager, caplog: pytest.LogCaptureFixture
) -> None:
    harness = make_manager()
    await load(harness, "a")
    asked: list[None] = []

    def is_short() -> bool:
        asked.append(None)
        if len(asked) < 4:
            raise OSError("the driver is being updated")
        return False

    harness.manager.allocator.ledger.is_short = is_short
    with caplog.at_level(logging.WARNING, "ingle.daemon"):
        async with watching(harness, Clocks()):
            await harness.until(lambda: len(asked) > 5)
    assert caplog.text.count("Cannot read the machine") == 1
