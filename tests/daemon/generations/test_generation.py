"""Generation registry: retention, limits and cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.errors import NotFound, TooManyGenerations
from ingle.daemon.generations.generation import GenerationRun
from ingle.daemon.generations.generation_registry import GenerationRegistry, new_generation_id

if TYPE_CHECKING:
    from ..conftest import ManagerHarness

    MakeManager = Callable[..., ManagerHarness]


def start(registry: GenerationRegistry, name: str = "a") -> GenerationRun:
    return registry.start(name, name, GenerateRequest(id=new_generation_id(), prompt="x"))


async def test_generation_is_kept_for_a_while_after_its_end(make_manager: MakeManager) -> None:
    harness = make_manager()
    registry = GenerationRegistry(harness.manager, keep_seconds=0.05)
    gate = harness.plans["a"].token_gate = asyncio.Event()
    generation = start(registry)
    await asyncio.sleep(0.1)
    assert registry.get(generation.id).state == "running"
    gate.set()
    await generation.task
    assert registry.get(generation.id).status().text == "Hello"

    def gone() -> bool:
        try:
            registry.get(generation.id)
        except NotFound:
            return True
        return False

    await harness.until(gone)


async def test_oldest_generations_are_evicted_beyond_keep_bytes(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].reply = ("x" * 1000,)
    registry = GenerationRegistry(harness.manager, keep_bytes=4000)
    ids: list[str] = []
    for _ in range(5):
        generation = start(registry)
        await generation.task
        ids.append(generation.id)
    await asyncio.sleep(0)
    for id_ in ids[:2]:
        with pytest.raises(NotFound):
            registry.get(id_)
    assert registry.get(ids[-1]).status().text == "x" * 1000
    harness.plans["a"].reply = ("x" * 100_000,)
    await harness.manager.unload()
    large = start(registry)
    await large.task
    await asyncio.sleep(0)
    assert registry.get(large.id).state == "finished"
    with pytest.raises(NotFound):
        registry.get(ids[-1])
    await registry.close()


async def test_number_of_running_generations_is_limited(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].token_gate = asyncio.Event()
    registry = GenerationRegistry(harness.manager, max_running=2)
    first = start(registry)
    start(registry)
    with pytest.raises(TooManyGenerations):
        start(registry)
    await first.cancel()
    start(registry)
    await registry.close()


async def test_generation_cancelled_before_its_first_step_has_a_finished_event(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    registry = GenerationRegistry(harness.manager)
    generation = start(registry)
    await generation.cancel()
    events = [event async for events in generation.log.follow(0) for event in events]
    assert [event.name for event in events] == ["finished"]
    assert b'"cancelled"' in events[0].data
    assert harness.backends == []
    await registry.close()
