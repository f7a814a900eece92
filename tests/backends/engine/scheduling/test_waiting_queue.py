"""Whose turn it is, without an engine."""

from __future__ import annotations

from collections import Counter

import pytest

from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.scheduling.waiting_queue import MAX_PASSED, WaitingQueue
from ingle.backends.engine.sequence import Sequence

pytestmark = pytest.mark.quick


def make(client: str, prompt: int = 10, priority: Priority = Priority.INTERACTIVE) -> Sequence:
    return Sequence(client, 0, [1] * prompt, SamplingParams(), client=client, priority=priority)


def order(queue: WaitingQueue) -> str:
    """The clients in the order in which they would be asked."""
    return "".join(sequence.client for sequence in queue.candidates())


def begin_next(queue: WaitingQueue) -> Sequence:
    sequence = next(queue.candidates())
    queue.begin(sequence, sequence.prompt_length)
    return sequence


def generate(sequence: Sequence, count: int) -> None:
    sequence.token_ids += [2] * count


def test_one_client_is_served_in_order() -> None:
    queue = WaitingQueue()
    sequences = [make("a") for _ in range(5)]
    for sequence in sequences:
        queue.add(sequence)
    assert [begin_next(queue) for _ in range(5)] == sequences
    assert len(queue) == 0


def test_interactive_comes_before_batch() -> None:
    queue = WaitingQueue()
    for client, priority in (("b", Priority.BATCH), ("i", Priority.INTERACTIVE)):
        queue.add(make(client, priority=priority))
    assert order(queue) == "ib"


def test_a_client_with_many_requests_does_not_hold_up_one_with_few() -> None:
    queue = WaitingQueue()
    for _ in range(100):
        queue.add(make("a"))
    for _ in range(8):
        begin_next(queue)
    queue.add(make("b"))
    assert begin_next(queue).client == "a", "b has no claim from the time when it was not there"
    assert begin_next(queue).client == "b"


def test_clients_share_by_tokens_not_by_requests() -> None:
    queue = WaitingQueue()
    for _ in range(40):
        queue.add(make("a", prompt=100))
        queue.add(make("b", prompt=20))
    served: Counter[str] = Counter()
    while max(served.values(), default=0) < 600:
        sequence = begin_next(queue)
        served[sequence.client] += sequence.prompt_length
        queue.leave(sequence)
    assert abs(served["a"] - served["b"]) <= 100


def test_generated_tokens_count_while_they_are_generated() -> None:
    queue = WaitingQueue()
    for client in "aabb":
        queue.add(make(client))
    first, second = begin_next(queue), begin_next(queue)
    assert {first.client, second.client} == {"a", "b"}
    generate(first, 5)
    assert order(queue)[0] == second.client
    generate(second, 50)
    assert order(queue)[0] == first.client


def test_what_the_cache_had_costs_nothing() -> None:
    queue = WaitingQueue()
    for client in "aabb":
        queue.add(make(client, prompt=1000))
    queue.begin(next(queue.candidates()), 1)
    queue.begin(next(queue.candidates()), 1000)
    assert order(queue) == "ab"


def test_who_was_away_saves_nothing_up() -> None:
    queue = WaitingQueue()
    queue.add(make("a", prompt=5))
    queue.leave(begin_next(queue))
    queue.add(make("b"))
    running = begin_next(queue)
    for _ in range(50):
        queue.add(make("b"))
    for _ in range(20):
        queue.leave(begin_next(queue))
    for _ in range(50):
        queue.add(make("a"))
    clients = [begin_next(queue).client for _ in range(20)]
    assert clients.count("a") == clients.count("b") == 10
    queue.leave(running)


def test_where_nobody_waits_a_new_client_begins_where_the_last_one_is() -> None:
    queue = WaitingQueue()
    queue.add(make("a", prompt=500))
    begin_next(queue)
    for client in "bbba":
        queue.add(make(client))
    assert [begin_next(queue).client for _ in range(4)] == ["b", "a", "b", "b"]


def test_a_debt_is_kept_while_others_are_served_and_no_longer() -> None:
    queue = WaitingQueue()
    queue.add(make("a", prompt=500))
    greedy = begin_next(queue)
    queue.add(make("c"))
    still_running = begin_next(queue)
    queue.leave(greedy)
    queue.add(make("b"))
    queue.add(make("a"))
    assert order(queue) == "ba"
    for sequence in [still_running, *queue.candidates()]:
        queue.leave(sequence)
    for client in "ab":
        queue.add(make(client))
    assert order(queue) == "ab"


def test_a_preempted_sequence_is_the_next_of_its_client() -> None:
    queue = WaitingQueue()
    first, second = make("a"), make("a")
    for sequence in (first, second):
        queue.add(sequence)
    assert begin_next(queue) is first
    queue.put_back(first)
    assert list(queue.candidates()) == [first, second]
    assert len(queue) == 2


def test_one_too_large_is_passed_a_bounded_number_of_times() -> None:
    queue = WaitingQueue()
    large = make("a", prompt=1000)
    queue.add(large)
    begun = 0
    for _ in range(100):
        queue.add(make("a"))
        for sequence in queue.candidates():
            if sequence is not large:
                queue.begin(sequence, sequence.prompt_length)
                begun += 1
            elif not queue.refuse(large):
                break
    assert begun == MAX_PASSED


def test_nobody_passes_one_that_was_preempted() -> None:
    queue = WaitingQueue()
    queue.add(make("a"))
    preempted = begin_next(queue)
    preempted.started_at = 1.0
    queue.put_back(preempted)
    assert not queue.refuse(next(queue.candidates()))


def test_it_is_settled_until_something_comes_or_goes() -> None:
    queue = WaitingQueue()
    assert queue.settled
    sequence = make("a")
    queue.add(sequence)
    assert not queue.settled
    queue.settled = True
    begin_next(queue)
    assert queue.settled
    queue.leave(sequence)
    assert not queue.settled
