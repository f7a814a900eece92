"""`LineSpeed`: how much output may be on its way to the terminal.

A slow line, such as a connection over a phone, has buffers that take seconds of output, and
whatever is typed would be displayed after it. So only as much is on its way as the terminal
displays in a tenth of a second; the rest waits here, where newer output replaces it.
"""

from __future__ import annotations

import re
from collections import deque

QUERY = "\x1b[c"
"""Requests the terminal's attributes, which all terminals report; the reply comes when all output
before it has been processed."""
REPLY = re.compile(rb"\x1b\[\?[\d;]*c")

AHEAD_SECONDS = 0.06
"""How long the terminal is kept busy ahead, beyond the time of a reply."""
FARTHEST = 0.3
"""Seconds: the longest time of a reply that is taken for distance and not for a queue."""
PATIENCE = 2.0
"""Seconds until a reply counts as lost; without replies only the system's buffers hold back."""
LEAST, FIRST, MOST = 1000, 4000, 1_000_000
"""Bounds, in characters, of what may be on its way; `FIRST` until the speed is known."""


class LineSpeed:
    """Learns the speed from the replies to queries; times are in seconds, sizes in characters."""

    def __init__(self) -> None:
        self._probes: deque[tuple[float, int, int]] = deque()
        """For each query: when it was sent, the output before it, and all that was on its way."""
        self._on_its_way = 0
        self._allowed = FIRST
        self._nearest = FARTHEST
        self.replies = False
        """Whether the terminal replies, so that its speed is known."""

    @property
    def expects_reply(self) -> bool:
        """Whether a terminal that replies has not replied to all queries."""
        return self.replies and bool(self._probes)

    def room(self, now: float) -> int:
        """Return how much may be written now; without replies, how much at a time."""
        if self._probes and now - self._probes[0][0] >= PATIENCE:
            self._probes.clear()
            self._on_its_way, self.replies = 0, False
        return max(0, self._allowed - self._on_its_way) if self.replies else FIRST

    def patience(self, now: float) -> float | None:
        """Return how long a reply may still take before it counts as lost."""
        return max(0.0, self._probes[0][0] + PATIENCE - now) if self._probes else None

    def sent(self, size: int, now: float) -> None:
        """Note that output and a query after it are written."""
        self._on_its_way += size
        self._probes.append((now, size, self._on_its_way))

    def replied(self, now: float) -> None:
        """Learn from a reply."""
        self.replies = True
        if not self._probes:
            return  # to a query that counted as lost
        sent_at, size, all_of_it = self._probes.popleft()
        self._on_its_way -= size
        took = max(now - sent_at, 0.0001)
        # Little output waits for nothing of ours: if it takes longer than once, all replies do.
        longest = 2 * self._nearest if all_of_it <= LEAST else self._nearest
        self._nearest = min(took, longest, FARTHEST)
        allowed = round(all_of_it / took * (self._nearest + AHEAD_SECONDS))
        # A quick reply to little output says nothing against more.
        if took <= self._nearest + AHEAD_SECONDS:
            allowed = max(allowed, self._allowed)
        self._allowed = min(MOST, max(LEAST, allowed))
