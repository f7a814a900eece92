"""Retries after a worker crash, with crashes scripted by the test."""

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


async def run_request(
    harness: ManagerHarness, *, whole: bool = False, priority: Priority = Priority.INTERACTIVE
) -> list[Event]:
    """Run one request and return all events the client receives."""
    events: list[Event] = []
    async with harness.manager.lease("a", whole=whole, priority=priority) as lease:
        await lease.backend.run(GenerateRequest(id="r", prompt="x"), events.extend)
    return events


@pytest.mark.parametrize("whole", [False, True])
async def test_crash_before_output_is_retried_transparently(
    make_manager: MakeManager, whole: bool
) -> None:
    harness = make_manager()
    plan = harness.plans["a"]
    plan.deaths = [2 if whole else 0]
    events = await run_request(harness, whole=whole)
    assert [type(event) for event in events].count(Started) == 1
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "Hello"
    assert len(harness.backends) == 2
    assert harness.manager.failures.deaths == {"a": 1}
    assert harness.manager.failures.retries == {"a": 1}
    assert all(backend.active == 0 for backend in harness.backends)


async def test_crash_after_output_is_raised(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].deaths = [1]
    with pytest.raises(WorkerDied, match="signal 9"):
        await run_request(harness)
    assert harness.manager.failures.retries == {}


async def test_second_crash_is_raised_and_third_causes_quarantine(
    make_manager: MakeManager,
) -> None:
    harness = make_manager()
    harness.plans["a"].deaths = [0, 0, 0]
    with pytest.raises(WorkerDied):
        await run_request(harness)
    assert len(harness.backends) == 2
    with pytest.raises(ModelQuarantined):  # the third crash within a minute causes quarantine
        await run_request(harness)
    assert len(harness.backends) == 3


async def test_crash_during_start_is_retried_once(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].start_errors = [WorkerDied("It died."), WorkerDied("It died.")]
    with pytest.raises(WorkerDied):
        await run_request(harness)
    await harness.manager.unload()
    harness.plans["a"].start_errors = [WorkerDied("It died.")]
    assert len(await run_request(harness)) == 4
    harness.plans["a"].start_errors = []
    harness.plans["a"].deaths = []
    assert harness.manager.failures.retries == {"a": 2}


async def test_batch_requests_are_not_retried(make_manager: MakeManager) -> None:
    harness = make_manager()
    harness.plans["a"].deaths = [0]
    with pytest.raises(WorkerDied):
        await run_request(harness, priority=Priority.BATCH)


async def test_lease_is_retried_only_once(make_manager: MakeManager) -> None:
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


async def test_retry_queue_is_lifo_and_skips_cancelled_entries() -> None:
    queue = RetryQueue()
    order: list[int] = []
    numbers = [queue.arrive() for _ in range(4)]

    async def enter_and_leave(number: int) -> None:
        await queue.enter(number)
        order.append(number)
        await asyncio.sleep(0)
        queue.leave()

    tasks = [asyncio.create_task(enter_and_leave(number)) for number in numbers]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.wait(tasks)
    assert order == [3, 1, 0]
    await enter_and_leave(9)
    assert order[-1] == 9
