"""`OutputQueue`: what the terminal gets next, at the speed at which it displays.

A slow line, such as a connection over a phone, has buffers that take seconds of output, and
whatever is typed would be displayed after it. So only as much is on its way as the terminal
displays in a tenth of a second; the rest waits here, where typed text can overtake it.
"""

from __future__ import annotations

import re
from collections import deque

from textual._ansi_sequences import SYNC_END, SYNC_START  # pyright: ignore[reportPrivateUsage]

QUERY = "\x1b[?2026$p"
"""Requests a mode; the reply comes when the terminal has processed all output before it."""
REPLY = re.compile(rb"\x1b\[\?2026;\d\$y")

AHEAD_SECONDS = 0.1
"""How long the terminal is kept busy ahead, beyond the time of a reply."""
FARTHEST = 0.3
"""Seconds: the longest time of a reply that is taken for distance and not for a queue."""
PATIENCE = 2.0
"""Seconds until a reply counts as lost; without replies nothing is held back."""
LEAST, FIRST, MOST = 1500, 16_000, 1_000_000
"""Bounds, in characters, of what may be on its way; `FIRST` until the speed is known."""

_MOVE = re.compile(r"\x1b\[(\d+);\d+H")


class OutputQueue:
    """Output in pieces of one screen row each; times are in seconds, sizes in characters."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int | None, str]] = deque()
        self._probes: deque[tuple[float, int, int]] = deque()
        """For each query: when it was sent, the output before it, and all that was on its way."""
        self._on_its_way = 0
        self._allowed = FIRST
        self._nearest = FARTHEST
        self._syncs = False
        self.size = 0
        self.replies = False
        """Whether the terminal replies, so that its speed is known."""

    def put(self, text: str, *, first: bool = False) -> None:
        """Add output; with `first`, before all that is for other rows."""
        if text in (SYNC_START, SYNC_END):
            self._syncs = True  # `take` adds them where they fit
            return
        pieces = list(_pieces(text))
        self.size += sum(len(piece) for _, piece in pieces)
        if not first:
            self._pieces.extend(pieces)
            return
        rows = {row for row, _ in pieces}
        waiting = list(self._pieces)
        # Output that belongs to no row, such as a change of modes, is never overtaken.
        fixed = max((i + 1 for i, (row, _) in enumerate(waiting) if row is None), default=0)
        same = [piece for piece in waiting[fixed:] if piece[0] in rows]
        others = [piece for piece in waiting[fixed:] if piece[0] not in rows]
        self._pieces = deque([*waiting[:fixed], *same, *pieces, *others])

    def wait_seconds(self, now: float) -> float | None:
        """Return how long to wait for a reply before `take`; None to wait for more output."""
        if not self._pieces:
            return None
        if not self.replies or self._on_its_way < self._allowed:
            return 0.0
        return max(0.0, self._probes[0][0] + PATIENCE - now)

    def take(self, now: float) -> str:
        """Return what is to be written now; more than that waits for `replied`."""
        if self.replies and self._probes and now - self._probes[0][0] >= PATIENCE:
            self._probes.clear()
            self._on_its_way, self.replies = 0, False
        room = self._allowed - self._on_its_way if self.replies else self.size
        taken: list[str] = []
        size = 0
        while self._pieces and size < max(1, room):
            taken.append(self._pieces.popleft()[1])
            size += len(taken[-1])
        self.size -= size
        text = "".join(taken)
        if self._syncs and not self._pieces:
            # In parts it is displayed as it comes: a terminal would hold back typed text, too.
            text = f"{SYNC_START}{text}{SYNC_END}"
        if self.replies:
            text += QUERY
            self._on_its_way += size
            self._probes.append((now, size, self._on_its_way))
        return text

    def replied(self, now: float) -> None:
        """Learn the speed from a reply."""
        if not self._probes:
            self.replies = True  # to a query of the start, or one that counted as lost
            return
        sent_at, size, all_of_it = self._probes.popleft()
        self._on_its_way -= size
        took = max(now - sent_at, 0.0001)
        self._nearest = min(self._nearest, took)
        allowed = round(all_of_it / took * (self._nearest + AHEAD_SECONDS))
        # With less on its way than allowed, the figure is that of the program, not of the line.
        if all_of_it < self._allowed:
            allowed = max(allowed, self._allowed)
        self._allowed = min(MOST, max(LEAST, allowed))


def _pieces(text: str) -> list[tuple[int | None, str]]:
    """Split a frame into its rows; any other output is one piece without a row."""
    if _MOVE.match(text) is None:
        return [(None, text)] if text else []
    lines = [(_MOVE.match(line), line) for line in text.split("\n") if line]
    if any(move is None for move, _ in lines):
        return [(None, text)]
    return [(int(move[1]), line) for move, line in lines if move is not None]
