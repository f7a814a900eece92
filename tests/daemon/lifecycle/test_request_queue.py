"""Admission of requests: slots, queue limits, priorities and Retry-After."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from ingle.backends.base.requests import Priority
from ingle.daemon.errors import QueueFull
from ingle.daemon.lifecycle.request_queue import (
    LONGEST_RETRY,
    RETRY_UNKNOWN,
    RequestQueue,
)

CHAT, BATCH = Priority.INTERACTIVE, Priority.BATCH


def enter(queue: RequestQueue, priority: Priority = CHAT, answers: int = 1) -> ExitStack:
    return queue.enter("m", priority, answers, slots=2, max_waiting=3)


def test_requests_beyond_slots_and_queue_are_refused() -> None:
    queue = RequestQueue()
    places = [enter(queue) for _ in range(5)]
    with pytest.raises(QueueFull) as refusal:
        enter(queue)
    assert refusal.value.code == "queue_full"
    assert refusal.value.headers["retry-after"] == str(int(RETRY_UNKNOWN))
    places[0].close()
    places[0].close()
    enter(queue)
    with pytest.raises(QueueFull):
        enter(queue)


def test_exception_releases_the_queue_slot() -> None:
    queue = RequestQueue()
    for _ in range(20):
        with pytest.raises(ValueError, match="it failed"), enter(queue):
            raise ValueError("it failed")


def test_batch_limit_counts_all_requests_and_interactive_only_its_own() -> None:
    queue = RequestQueue()
    for _ in range(3):
        enter(queue)
    for _ in range(2):
        enter(queue, BATCH)
    with pytest.raises(QueueFull):
        enter(queue, BATCH)
    for _ in range(2):
        enter(queue)
    with pytest.raises(QueueFull):
        enter(queue)


def test_multiple_choices_are_admitted_together_but_counted_each() -> None:
    queue = RequestQueue()
    big = enter(queue, answers=4)
    enter(queue, answers=16)
    with pytest.raises(QueueFull):
        enter(queue)
    big.close()
    with pytest.raises(QueueFull):
        enter(queue)


def test_retry_after_follows_the_completion_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("ingle.daemon.lifecycle.request_queue.time.monotonic", lambda: now)
    queue = RequestQueue()
    places = [enter(queue) for _ in range(5)]
    for place in places[:4]:
        now += 2.5
        place.close()
    assert queue.retry_after(3) == 8
    assert queue.retry_after(0) == 1
    assert queue.retry_after(1000) == LONGEST_RETRY
    places[4].close()
    now += 3600  # the queue was empty, so this says nothing about the request rate
    place = enter(queue)
    now += 2.5
    place.close()
    assert queue.retry_after(3) <= 8
