"""Finds the entries of a chat that contain a query, with the number of hits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from ..entries.entry import Entry
from .search_hits import folded


class TextSearch:
    """Counts hits in texts, not in rendered lines; a longer query searches only earlier matches.

    Hits are numbered from 0 at the top of the chat.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = list(entries)
        self._query = ""
        self._hits: list[tuple[int, int]] = []
        self._ends: list[int] = []
        self._lower: dict[int, str] = {}

    @property
    def query(self) -> str:
        """Return the last query, in lower case."""
        return self._query

    @property
    def total(self) -> int:
        """Return the number of hits."""
        return self._ends[-1] if self._ends else 0

    def covers(self, entries: Sequence[Entry]) -> bool:
        """Return whether these are the entries searched, none of them still growing."""
        return len(entries) == len(self._entries) and all(
            one is other for one, other in zip(entries, self._entries, strict=True)
        )

    def steps(self, query: str) -> Iterator[None]:
        """Search for `query`; yields now and then so that keys can be handled."""
        query = folded(query)
        narrower = bool(self._query) and self._query in query
        places = [index for index, _ in self._hits] if narrower else range(len(self._entries))
        hits: list[tuple[int, int]] = []
        for number, index in enumerate(places if query else ()):
            text = self._text(index)
            count = text.count(query)
            if count:
                hits.append((index, count))
            if number % 64 == 63:
                yield
        self._query = query
        self._hits = hits
        self._ends = list(accumulate(count for _, count in hits))

    def _text(self, index: int) -> str:
        source = self._entries[index].text
        kept = self._lower.get(index)
        if kept is None or len(kept) != len(source):
            kept = self._lower[index] = folded(source)
        return kept

    def locate(self, number: int) -> tuple[Entry, int]:
        """Return the entry of a hit, and its index within it."""
        place = bisect_right(self._ends, number)
        before = self._ends[place - 1] if place else 0
        return self._entries[self._hits[place][0]], number - before

    def first_from(self, entry: Entry | None) -> int:
        """Return the first hit in or below an entry, 0 if there is none."""
        index = next((i for i, other in enumerate(self._entries) if other is entry), 0)
        before = sum(count for place, count in self._hits if place < index)
        return before if before < self.total else 0
