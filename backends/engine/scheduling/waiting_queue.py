"""The waiting queue: the order in which sequences are admitted."""

from __future__ import annotations

from collections.abc import Iterator

from ...base.requests import Priority
from ..sequence import Sequence
from .fair_queue import FairQueue

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
