"""Finds the entries of a chat that contain a query, with the number of hits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from ..entries.entry import Entry
from ..lines import RenderedLine

Span = tuple[int, int, int]
"""A line's number, and the first and the end character on it."""


def folded(text: str) -> str:
    """Return the text in lower case with unchanged length."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def hit_spans(lines: list[RenderedLine], query: str) -> list[list[Span]]:
    """Return each hit's spans, several if it continues after a soft wrap; `query` is `folded`."""
    pieces: list[str] = []
    starts: list[int] = []
    length = 0
    for line in lines:
        if pieces:
            pieces.append(" " if line.soft else "\n")
            length += 1
        text = line.text[line.indent :].rstrip()
        starts.append(length)
        pieces.append(text)
        length += len(text)
    whole = folded("".join(pieces))
    hits: list[list[Span]] = []
    number = 0
    at = whole.find(query)
    while query and at >= 0:
        end = at + len(query)
        while number + 1 < len(starts) and starts[number + 1] <= at:
            number += 1
        hits.append(_spans(lines, starts, number, at, end))
        at = whole.find(query, end)
    return hits


def _spans(
    lines: list[RenderedLine], starts: list[int], number: int, at: int, end: int
) -> list[Span]:
    spans: list[Span] = []
    while number < len(starts) and starts[number] < end:
        indent, start = lines[number].indent, starts[number]
        last = starts[number + 1] - 1 if number + 1 < len(starts) else end
        spans.append((number, indent + max(0, at - start), indent + min(end, last) - start))
        number += 1
    return [span for span in spans if span[1] < span[2]]


class TextSearch:
    """Counts hits in texts, not in rendered lines; a longer query searches only earlier matches.

    Hits are numbered from 0 at the top of the chat.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = list(entries)
        self.query = ""
        """The last query, in lower case."""
        self._hits: list[tuple[int, int]] = []
        self._ends: list[int] = []
        self._lower: dict[int, str] = {}

    @property
    def total(self) -> int:
        """Return the number of hits."""
        return self._ends[-1] if self._ends else 0

    def covers(self, entries: Sequence[Entry]) -> bool:
        """Return whether these are the entries that are searched."""
        return list(entries) == self._entries

    def steps(self, query: str) -> Iterator[None]:
        """Search for `query`; yields periodically so that keys can be handled."""
        query = folded(query)
        narrower = bool(self.query) and self.query in query
        places = [index for index, _ in self._hits] if narrower else range(len(self._entries))
        hits: list[tuple[int, int]] = []
        for number, index in enumerate(places if query else ()):
            text = self._text(index)
            count = text.count(query)
            if count:
                hits.append((index, count))
            if number % 64 == 63:
                yield
        self.query = query
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
