"""`WaitingQueue`: order by priority, fair sharing by tokens between clients, bounded overtaking."""

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
    """Return the clients in queue order."""
    return "".join(sequence.client for sequence in queue.candidates())


def begin_next(queue: WaitingQueue) -> Sequence:
    sequence = next(queue.candidates())
    queue.begin(sequence, sequence.prompt_length)
    return sequence


def generate(sequence: Sequence, count: int) -> None:
    sequence.token_ids += [2] * count


def test_requests_of_one_client_are_fifo() -> None:
    queue = WaitingQueue()
    sequences = [make("a") for _ in range(5)]
    for sequence in sequences:
        queue.add(sequence)
    assert [begin_next(queue) for _ in range(5)] == sequences
    assert len(queue) == 0


def test_interactive_precedes_batch() -> None:
    queue = WaitingQueue()
    for client, priority in (("b", Priority.BATCH), ("i", Priority.INTERACTIVE)):
        queue.add(make(client, priority=priority))
    assert order(queue) == "ib"


def test_client_with_many_requests_does_not_delay_others() -> None:
    queue = WaitingQueue()
    for _ in range(100):
        queue.add(make("a"))
    for _ in range(8):
        begin_next(queue)
    queue.add(make("b"))
    assert begin_next(queue).client == "a", "b has no claim from the time when it was not there"
    assert begin_next(queue).client == "b"


def test_clients_share_by_tokens_not_requests() -> None:
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


def test_generated_tokens_are_charged_while_running() -> None:
    queue = WaitingQueue()
    for client in "aabb":
        queue.add(make(client))
    first, second = begin_next(queue), begin_next(queue)
    assert {first.client, second.client} == {"a", "b"}
    generate(first, 5)
    assert order(queue)[0] == second.client
    generate(second, 50)
    assert order(queue)[0] == first.client


def test_cached_tokens_are_not_charged() -> None:
    queue = WaitingQueue()
    for client in "aabb":
        queue.add(make(client, prompt=1000))
    queue.begin(next(queue.candidates()), 1)
    queue.begin(next(queue.candidates()), 1000)
    assert order(queue) == "ab"


def test_idle_client_accumulates_no_credit() -> None:
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


def test_new_client_starts_at_the_charge_of_the_last_one_served() -> None:
    queue = WaitingQueue()
    queue.add(make("a", prompt=500))
    begin_next(queue)
    for client in "bbba":
        queue.add(make(client))
    assert [begin_next(queue).client for _ in range(4)] == ["b", "a", "b", "b"]


def test_charge_of_a_client_is_kept_only_while_others_are_served() -> None:
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


def test_preempted_sequence_is_first_of_its_client() -> None:
    queue = WaitingQueue()
    first, second = make("a"), make("a")
    for sequence in (first, second):
        queue.add(sequence)
    assert begin_next(queue) is first
    queue.put_back(first)
    assert list(queue.candidates()) == [first, second]
    assert len(queue) == 2


def test_large_request_is_overtaken_a_bounded_number_of_times() -> None:
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


def test_preempted_sequence_is_not_overtaken() -> None:
    queue = WaitingQueue()
    queue.add(make("a"))
    preempted = begin_next(queue)
    preempted.started_at = 1.0
    queue.put_back(preempted)
    assert not queue.refuse(next(queue.candidates()))


def test_settled_is_cleared_when_requests_arrive_or_leave() -> None:
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
