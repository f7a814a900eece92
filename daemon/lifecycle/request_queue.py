"""How many requests a model has, and when these are too many."""

from __future__ import annotations

import math
import time
from collections import Counter
from types import TracebackType

from ingle.backends.base.requests import Priority

from ..errors import QueueFull

SHORTEST_RETRY = 1.0
LONGEST_RETRY = 60.0
RETRY_UNKNOWN = 5.0
_MEMORY = 0.7


class QueueSlot:
    """One request's place, from its arrival to its end; it may be left more than once."""

    def __init__(self, queue: RequestQueue, priority: Priority, answers: int) -> None:
        self._queue = queue
        self._priority = priority
        self._answers = answers
        self._left = False

    def leave(self) -> None:
        """The request ended, however."""
        if not self._left:
            self._left = True
            self._queue.left(self._priority, self._answers)

    def __enter__(self) -> QueueSlot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave()


class RequestQueue:
    """The requests of one model, which run or wait, be it for the model to be loaded.

    A request for several answers counts as many. Batch requests are refused where all together are
    too many, interactive ones only where they alone are: nobody who waits for an answer is turned
    away because of work that may take its time.
    """

    def __init__(self) -> None:
        self._answers: Counter[Priority] = Counter()
        self._pace: float | None = None  # recent seconds from one end to the next
        self._since = 0.0

    def enter(
        self, name: str, priority: Priority, answers: int, *, slots: int, max_waiting: int
    ) -> QueueSlot:
        """Take a place; raises `QueueFull` where `slots` and `max_waiting` are taken.

        A request for more answers than places are left is let in whole.
        """
        ahead = self._answers[Priority.INTERACTIVE]
        if priority is Priority.BATCH:
            ahead = self._answers.total()
        if ahead >= slots + max_waiting:
            retry = self.retry_after(ahead - slots)
            raise QueueFull(
                f"The model '{name}' has {ahead} requests to answer, and takes no more for now.",
                hint=f"Try again in {retry} s, or raise `max_queue`.",
                headers={"retry-after": str(retry)},
            )
        if not self._answers.total():
            self._since = time.monotonic()
        self._answers[priority] += answers
        return QueueSlot(self, priority, answers)

    @property
    def answers(self) -> int:
        """How many are being written or waited for."""
        return self._answers.total()

    def left(self, priority: Priority, answers: int) -> None:
        """Count a request out, and how long it took since the one before it."""
        self._answers[priority] -= answers
        now = time.monotonic()
        pace = (now - self._since) / answers
        if self._pace is not None:
            pace = _MEMORY * self._pace + (1 - _MEMORY) * pace
        self._pace = pace
        self._since = now

    def retry_after(self, waiting: int) -> int:
        """Whole seconds until about so many have begun, as fast as it went of late."""
        seconds = RETRY_UNKNOWN if self._pace is None else self._pace * waiting
        return math.ceil(min(max(seconds, SHORTEST_RETRY), LONGEST_RETRY))
