"""Who begins next, of all sequences that wait."""

from __future__ import annotations

from collections.abc import Iterator

from ...base.requests import Priority
from ..sequence import Sequence
from .fair_queue import FairQueue

MAX_PASSED = 16
"""So many may pass a sequence that is too large for the room there is; then room is kept for it.
Counted, not timed: where few come, passing does no harm, and where many do, the wait is short."""


class WaitingQueue:
    """Interactive sequences before batch ones, each fairly among their clients.

    It knows the running ones too, since what is computed for them counts.
    """

    def __init__(self) -> None:
        self._queues = {priority: FairQueue() for priority in Priority}
        self._refused: list[Sequence] = []
        self.settled = True
        """Whether nobody could begin who could not before."""

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
        """The sequences in their order: answer each with `begin` or `refuse`, or pass it over."""
        self._refused.clear()
        for queue in self._queues.values():
            yield from queue.candidates()

    def begin(self, sequence: Sequence, computed: int) -> None:
        """Take out the candidate, which runs now, with `computed` prompt tokens to be counted."""
        for passed in self._refused:
            passed.passed_by += 1
        sequence.passed_by = 0
        self._queues[sequence.priority].begin(sequence, computed)

    def refuse(self, sequence: Sequence) -> bool:
        """There is no room for the candidate; returns whether those behind it may be tried.

        Nobody passes one that was preempted: somebody has half of its answer before them.
        """
        self._refused.append(sequence)
        return sequence.passed_by < MAX_PASSED and not sequence.started_at

    def leave(self, sequence: Sequence) -> None:
        """Take out a sequence that ended, waiting or running."""
        self._queues[sequence.priority].leave(sequence)
        self.settled = False
