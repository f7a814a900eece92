"""Request queue of one model: slots, the limit on waiting requests, and the retry delay."""

from __future__ import annotations

import math
import time
from collections import Counter
from contextlib import ExitStack

from ingle.backends.base.requests import Priority

from ..errors import QueueFull

SHORTEST_RETRY = 1.0
LONGEST_RETRY = 60.0
RETRY_UNKNOWN = 5.0
_MEMORY = 0.7


class RequestQueue:
    """The running and waiting requests of one model, including those that wait for it to load.

    A request for several answers counts as many. Batch requests are refused if all requests
    together exceed the limit, interactive ones only if the interactive ones alone do: batch work
    never displaces an interactive request.
    """

    def __init__(self) -> None:
        self._answers: Counter[Priority] = Counter()
        self._pace: float | None = None  # seconds between the ends of recent requests
        self._since = 0.0

    def enter(
        self, name: str, priority: Priority, answers: int, *, slots: int, max_waiting: int
    ) -> ExitStack:
        """Take a slot, which closing the result releases, once.

        A request for more answers than are left is admitted whole. Raises `QueueFull` if `slots`
        and `max_waiting` are used up.
        """
        ahead = self._answers[Priority.INTERACTIVE]
        if priority is Priority.BATCH:
            ahead = self._answers.total()
        if ahead >= slots + max_waiting:
            retry = self.retry_after(ahead - slots)
            raise QueueFull(
                f"The model '{name}' has {ahead} requests queued and accepts no more for now.",
                hint=f"Try again in {retry} s, or raise `max_queue`.",
                headers={"retry-after": str(retry)},
            )
        if not self._answers.total():
            self._since = time.monotonic()
        self._answers[priority] += answers
        slot = ExitStack()
        slot.callback(self._leave, priority, answers)
        return slot

    @property
    def answers(self) -> int:
        """Return how many answers are running or waiting."""
        return self._answers.total()

    def _leave(self, priority: Priority, answers: int) -> None:
        """Remove a request and record the seconds since the previous one ended."""
        self._answers[priority] -= answers
        now = time.monotonic()
        pace = (now - self._since) / answers
        if self._pace is not None:
            pace = _MEMORY * self._pace + (1 - _MEMORY) * pace
        self._pace = pace
        self._since = now

    def retry_after(self, waiting: int) -> int:
        """Return the estimated seconds, whole, until `waiting` requests have started at the recent
        rate.
        """
        seconds = RETRY_UNKNOWN if self._pace is None else self._pace * waiting
        return math.ceil(min(max(seconds, SHORTEST_RETRY), LONGEST_RETRY))
