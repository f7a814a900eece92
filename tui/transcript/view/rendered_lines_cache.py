"""LRU cache of rendered transcript lines, which bounds the memory of a long chat."""

from __future__ import annotations

from collections import OrderedDict

from ..entries.entry import Entry

MAX_LINES = 6000
"""Most lines cached in all, about half a kilobyte each."""
MIN_ENTRIES = 48
"""Entries that keep their lines regardless of length: more than a screen shows."""


class RenderedLinesCache:
    """Frees the lines of the least recently shown entries when there are too many."""

    def __init__(self, max_lines: int = MAX_LINES) -> None:
        self._max_lines = max_lines
        self._counts: OrderedDict[Entry, int] = OrderedDict()
        self._total = 0

    @property
    def total(self) -> int:
        """Return the number of cached lines."""
        return self._total

    def touch(self, entry: Entry, lines: int) -> None:
        """Record that the entry was rendered or shown."""
        self._total += lines - self._counts.pop(entry, 0)
        self._counts[entry] = lines
        while self._total > self._max_lines and len(self._counts) > MIN_ENTRIES:
            oldest, count = self._counts.popitem(last=False)
            self._total -= count
            oldest.forget_lines()

    def discard(self, entry: Entry) -> None:
        """Remove an entry."""
        self._total -= self._counts.pop(entry, 0)

    def clear(self) -> None:
        """Remove all entries."""
        self._counts.clear()
        self._total = 0
