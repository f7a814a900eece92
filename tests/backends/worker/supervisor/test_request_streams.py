"""`RequestStreams`: events are routed to their requests, and ended requests are cancelled."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ingle.backends.base.backend import RequestBackend, stream_events
from ingle.backends.base.errors import RequestRejected, WorkerDied
from ingle.backends.base.events import Delta, Event, Finished, FinishReason, Started
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.worker.supervisor.request_streams import RequestStreams
from ingle.backends.worker.worker_protocol import Cancel, Outputs, Rejected, ToWorker

pytestmark = pytest.mark.quick


def ask(request_id: str, n: int = 1) -> GenerateRequest:
    return GenerateRequest(id=request_id, prompt="Hi", n=n)


def delta(request_id: str, index: int = 0) -> Delta:
    return Delta(request_id, index, "x", [1])


def finished(request_id: str, index: int = 0) -> Finished:
    return Finished(request_id, index, FinishReason.STOP, 1)


class Worker:
    """Records the messages sent to a worker, and runs requests on it."""

    def __init__(self) -> None:
        self.sent: list[ToWorker] = []
        self.streams = RequestStreams(self.sent.append)
        self.steps: dict[str, list[list[Event]]] = {}

    async def run(self, request: GenerateRequest) -> asyncio.Task[None]:
        """Begin a request and record its steps."""
        sink = self.steps.setdefault(request.id, []).append
        task = asyncio.create_task(self.streams.run(request, sink))
        await asyncio.sleep(0)
        return task

    @property
    def cancelled(self) -> list[str]:
        return [message.id for message in self.sent if isinstance(message, Cancel)]


async def test_each_step_calls_the_sink_once_per_request() -> None:
    worker = Worker()
    a, b = await worker.run(ask("a", n=2)), await worker.run(ask("b"))
    worker.streams.dispatch(Outputs([Started("a", 1), Started("b", 1), delta("a"), delta("gone")]))
    worker.streams.dispatch(Outputs([delta("a"), finished("b"), finished("a")]))
    await b
    assert not a.done()
    worker.streams.dispatch(Outputs([finished("a", 1)]))
    await a
    assert worker.steps["a"] == [
        [Started("a", 1), delta("a")],
        [delta("a"), finished("a")],
        [finished("a", 1)],
    ]
    assert worker.steps["b"] == [[Started("b", 1)], [finished("b")]]
    assert [type(message) for message in worker.sent] == [GenerateRequest, GenerateRequest]
    assert not worker.streams.busy


async def test_cancelled_call_cancels_the_request() -> None:
    worker = Worker()
    task = await worker.run(ask("a"))
    worker.streams.dispatch(Outputs([delta("a")]))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    worker.streams.dispatch(Outputs([delta("a"), finished("a")]))
    assert worker.steps["a"] == [[delta("a")]]
    assert worker.cancelled == ["a"]


async def test_failing_sink_fails_only_its_own_request() -> None:
    worker = Worker()
    neighbour = await worker.run(ask("b"))

    def fail(events: list[Event]) -> None:
        raise ValueError("the sink's own mistake")

    failing = asyncio.create_task(worker.streams.run(ask("a"), fail))
    await asyncio.sleep(0)
    worker.streams.dispatch(Outputs([delta("a"), delta("b")]))
    worker.streams.dispatch(Outputs([delta("a"), finished("b")]))
    with pytest.raises(ValueError, match="own mistake"):
        await failing
    await neighbour
    assert worker.cancelled == ["a"]


@pytest.mark.parametrize("step", [[delta("a")], []], ids=["after a token", "at once"])
async def test_request_ended_by_the_worker_is_not_cancelled(step: list[Event]) -> None:
    worker = Worker()
    rejected, dead = await worker.run(ask("a")), await worker.run(ask("b"))
    worker.streams.dispatch(Outputs(step))
    worker.streams.dispatch(Rejected("a", "invalid", "No."))
    with pytest.raises(RequestRejected, match="No"):
        await rejected
    worker.streams.fail_all(WorkerDied("It died."))
    with pytest.raises(WorkerDied):
        await dead
    assert worker.steps["a"] == [step] * bool(step)
    assert worker.cancelled == []


async def test_pending_events_are_delivered_before_a_later_error() -> None:
    worker = Worker()
    events = stream_events(cast("RequestBackend", worker.streams), ask("a"))
    first = asyncio.ensure_future(anext(events))
    while not worker.streams.busy:
        await asyncio.sleep(0)
    worker.streams.dispatch(Outputs([Started("a", 1), delta("a")]))
    worker.streams.fail_all(WorkerDied("It died."))
    assert await first == Started("a", 1)
    assert await anext(events) == delta("a")
    with pytest.raises(WorkerDied):
        await anext(events)
    assert worker.cancelled == []


async def test_closing_the_generator_cancels_the_request() -> None:
    worker = Worker()
    for request_id, end in (("a", []), ("b", [finished("b")])):
        events = stream_events(cast("RequestBackend", worker.streams), ask(request_id))
        first = asyncio.ensure_future(anext(events))
        while not worker.streams.busy:
            await asyncio.sleep(0)
        worker.streams.dispatch(Outputs([delta(request_id), *end]))
        assert await first == delta(request_id)
        await events.aclose()
    assert worker.cancelled == ["a"]
    assert not worker.streams.busy
