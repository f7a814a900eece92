"""The waiting queue: the order in which sequences are admitted, fair among clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...base.requests import Priority
from ..sequence import Sequence

GENERATED_WEIGHT = 2.0
"""What a generated token counts, in prompt tokens: a step computes one of it, but many of a prompt.
"""


@dataclass(eq=False)
class _Client:
    """A client and the tokens computed for it."""

    tokens: float = 0.0
    waiting: list[Sequence] = field(default_factory=list[Sequence])
    running: int = 0


class FairQueue:
    """Waiting sequences of one priority, served fairly among clients, in order within each.

    The virtual token counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI
    2024): the client with the fewest tokens computed is next. Prompt tokens that the cache had
    count nothing. A client that had nothing waiting is raised to the lowest counter of the waiting
    ones, since unused time does not accumulate.
    """

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        self._charged: dict[Sequence, int] = {}  # running ones: generated tokens counted so far
        self._served_last: _Client | None = None
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence behind the others of its client."""
        self._settle()
        floor = self._floor()
        client = self._clients.get(sequence.client)
        if client is None:
            self._forget_idle(floor)
            client = self._clients[sequence.client] = _Client()
        if not client.waiting:
            client.tokens = max(client.tokens, floor)
        client.waiting.append(sequence)
        self._waiting += 1

    def put_back(self, sequence: Sequence) -> None:
        """Queue a running sequence again, before the others of its client."""
        client = self._stop(sequence)
        client.waiting.insert(0, sequence)
        self._waiting += 1

    def begin(self, sequence: Sequence, computed: int) -> None:
        """Remove a sequence that runs now; `computed` tokens of its prompt are counted."""
        client = self._clients[sequence.client]
        client.waiting.remove(sequence)
        self._waiting -= 1
        client.running += 1
        client.tokens += computed
        self._charged[sequence] = sequence.num_generated
        self._served_last = client

    def leave(self, sequence: Sequence) -> None:
        """Remove a finished sequence, waiting or running."""
        if sequence in self._charged:
            self._stop(sequence)
        else:
            self._clients[sequence.client].waiting.remove(sequence)
            self._waiting -= 1
        if not self._waiting and not self._charged:
            # The queue is idle: counters have no meaning any more.
            self._clients.clear()
            self._served_last = None

    def candidates(self) -> Iterator[Sequence]:
        """Yield the waiting sequences in order; each may begin before the next is yielded."""
        self._settle()
        tried = dict.fromkeys(self._clients.values(), 0)
        while True:
            clients = [client for client in tried if tried[client] < len(client.waiting)]
            if not clients:
                return
            client = min(clients, key=lambda c: (c.tokens, c.waiting[tried[c]].arrived_at))
            sequence = client.waiting[tried[client]]
            yield sequence
            if sequence not in self._charged:
                tried[client] += 1

    def _floor(self) -> float:
        """The lowest counter of waiting clients; without any, that of the client served last."""
        waiting = [client.tokens for client in self._clients.values() if client.waiting]
        if waiting:
            return min(waiting)
        return self._served_last.tokens if self._served_last is not None else 0.0

    def _settle(self) -> None:
        """Count what running sequences have generated."""
        for sequence in self._charged:
            self._charge(sequence)

    def _charge(self, sequence: Sequence) -> _Client:
        client = self._clients[sequence.client]
        generated = sequence.num_generated
        client.tokens += GENERATED_WEIGHT * (generated - self._charged[sequence])
        self._charged[sequence] = generated
        return client

    def _stop(self, sequence: Sequence) -> _Client:
        client = self._charge(sequence)
        del self._charged[sequence]
        client.running -= 1
        return client

    def _forget_idle(self, floor: float) -> None:
        """Drop the clients that would be lifted to the same counter as new ones."""
        for name, client in list(self._clients.items()):
            if not client.waiting and not client.running and client.tokens <= floor:
                del self._clients[name]


MAX_PASSED = 16
"""How many sequences may pass one that is too large for the free KV blocks, before blocks are kept
for it. A count, not a time: passing is harmless under low load, and brief under high load."""


class WaitingQueue:
    """Orders interactive sequences before batch ones, and each kind fairly among clients.

    It knows the running ones too, since their tokens count for fairness.
    """

    def __init__(self) -> None:
        self._queues = {priority: FairQueue() for priority in Priority}
        self._refused: list[Sequence] = []
        self.settled = True
        """Whether nothing has changed since no sequence could be admitted."""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence."""
        self._queues[sequence.priority].add(sequence)
        self.settled = False

    def put_back(self, sequence: Sequence) -> None:
        """Queue a running sequence again, before the others of its client."""
        self._queues[sequence.priority].put_back(sequence)
        self.settled = False

    def candidates(self) -> Iterator[Sequence]:
        """Yield the sequences in order; the caller calls `begin` or `refuse`, or skips one."""
        self._refused.clear()
        for queue in self._queues.values():
            yield from queue.candidates()

    def begin(self, sequence: Sequence, computed: int) -> None:
        """Remove the candidate, which runs now; `computed` prompt tokens count for fairness."""
        for passed in self._refused:
            passed.passed_by += 1
        sequence.passed_by = 0
        self._queues[sequence.priority].begin(sequence, computed)

    def refuse(self, sequence: Sequence) -> bool:
        """Refuse the candidate for lack of KV blocks; returns whether the next may be tried.

        A preempted sequence is not passed: its user sees half an answer.
        """
        self._refused.append(sequence)
        return sequence.passed_by < MAX_PASSED and not sequence.started_at

    def leave(self, sequence: Sequence) -> None:
        """Remove a finished sequence, waiting or running."""
        self._queues[sequence.priority].leave(sequence)
        self.settled = False
