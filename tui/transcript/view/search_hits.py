"""Finds search hits in rendered lines."""

from __future__ import annotations

from ..lines.line import RenderedLine

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
