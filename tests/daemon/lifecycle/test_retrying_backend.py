"""Tests of asking once more, with processes whose deaths a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.events import Delta, Event, Started
from ingle.backends.base.requests import GenerateRequest, Priority, TokenizeRequest
from ingle.daemon.errors import ModelQuarantined
from ingle.daemon.lifecycle.retrying_backend import RetryQueue

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from ..conftest import ManagerHarness

    MakeManager = Callable[..., ManagerHarness]


async def ask(
    harness: ManagerHarness, *, whole: bool = False, priority: Priority = Priority.INTERACTIVE
) -> list[Event]:
    """All events that a client sees."""
    seen: list[Event] = []
    async with harness.manager.lease("a", whole=whole, priority=priority) as lease:
        await lease.backend.run(GenerateRequest(id="r", prompt="x"), seen.extend)
    return seen


@pytest.mark.parametrize("whole", [False, True])
async def test_who_has_seen_nothing_sees_one_beginning_and_one_answer(
    make_manager: MakeManager, whole: bool
) -> None:
    harness = make_manager()
    plan = harness.plans["a"]
    plan.deaths = [2 if whole else 0]
    seen = await ask(harness, whole=whole)
    assert [type(event) for event in seen].count(Started) == 1
    assert "".join(event.text for event in seen if isinstance(event, Delta)) == "Hello"
    assert len(harness.backends) == 2
    assert harness.manager.failures.deaths == {"a": 1}
    assert harness.manager.failures.retries == {"a": 1}
    assert all(backend.active == 0 for backend in harness.backends)


async def test_who_has_seen_a_word_is_told_of_the_death(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].deaths = [1]
    with pytest.raises(WorkerDied, match="signal 9"):
        await ask(harness)
    assert harness.manager.failures.retries == {}


async def test_a_second_death_is_told_and_a_third_is_not_tried(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].deaths = [0, 0, 0]
    with pytest.raises(WorkerDied):
        await ask(harness)
    assert len(harness.backends) == 2
    with pytest.raises(ModelQuarantined):  # the third death uses the budget up
        await ask(harness)
    assert len(harness.backends) == 3


async def test_a_start_that_dies_is_tried_again_once(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].start_errors = [WorkerDied("It died."), WorkerDied("It died.")]
    with pytest.raises(WorkerDied):
        await ask(harness)
    await harness.manager.unload()
    harness.plans["a"].start_errors = [WorkerDied("It died.")]
    assert len(await ask(harness)) == 4
    harness.plans["a"].start_errors = []
    harness.plans["a"].deaths = []
    assert harness.manager.failures.retries == {"a": 2}


async def test_a_batch_has_its_own_way(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].deaths = [0]
    with pytest.raises(WorkerDied):
        await ask(harness, priority=Priority.BATCH)


async def test_a_lease_is_tried_again_once_however_often_it_asks(make_manager: MakeManager) -> None:
    harness = make_manager()
    async with harness.manager.lease("a") as lease:
        harness.backends[0].die("It was killed.")
        tokens = await lease.backend.tokenize(TokenizeRequest(id="t", text="ab"))
        assert tokens.token_ids == [97, 98]
        assert len(harness.backends) == 2
        harness.backends[1].die("It was killed.")
        with pytest.raises(WorkerDied):
            await lease.backend.tokenize(TokenizeRequest(id="t", text="ab"))
    assert len(harness.backends) == 2
    assert harness.manager.failures.retries == {"a": 1}


async def test_who_came_last_goes_first_and_who_leaves_the_line_holds_up_nobody() -> None:
    turns = RetryQueue()
    order: list[int] = []
    numbers = [turns.arrive() for _ in range(4)]

    async def go(number: int) -> None:
        await turns.enter(number)
        order.append(number)
        await asyncio.sleep(0)
        turns.leave()

    tasks = [asyncio.create_task(go(number)) for number in numbers]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.wait(tasks)
    assert order == [3, 1, 0]
    await go(9)
    assert order[-1] == 9
