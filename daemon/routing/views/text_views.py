"""Views of a text: its readable variants, with a mapping to positions in the original."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from ..text_analysis.character_folding import folds, hidden, lookalikes
from ..text_analysis.text_index import Span
from .encoded_text import decoded
from .table_cells import labelled_cells
from .text_edits import TextEdit

_Segment = tuple[str, Span, bool]
"""Text of a view, the span of the original that it stands for, and whether it was kept."""


class View:
    """A text derived from another; `span` maps positions back to the original.

    It consists of segments. A kept segment has the characters of the original, one for one; an
    edited one as a whole stands for what it replaced. `is_prose`: it has sentences that occur
    nowhere else, so their topic is worth a scan; `is_moved`: kept text is beside other words now,
    so that its meaning may differ.
    """

    def __init__(self, segments: Sequence[_Segment]) -> None:
        texts = [text for text, _, _ in segments]
        self.text = "".join(texts)
        self.is_prose = False
        self.is_moved = False
        self._places = list(accumulate(map(len, texts[:-1]), initial=0))
        self._spans = [span for _, span, _ in segments]
        self._kept = [kept for _, _, kept in segments]

    def span(self, start: int, end: int) -> Span:
        """Return the span in the original of a non-empty span of this view."""
        first = bisect_right(self._places, start) - 1
        last = bisect_right(self._places, end - 1) - 1
        begin, stop = self._spans[first][0], self._spans[last][1]
        if self._kept[first]:
            begin += start - self._places[first]
        if self._kept[last]:
            stop = self._spans[last][0] + end - self._places[last]
        return begin, stop

    def touches_an_edit(self, start: int, end: int) -> bool:
        """Whether any of these characters is not the original's, or may read differently."""
        if self.is_moved:
            return True
        first = bisect_right(self._places, start) - 1
        last = bisect_right(self._places, end - 1) - 1
        return first != last or not self._kept[first]

    def edited(self, edits: Iterable[TextEdit], context: int | None = None) -> View:
        """Return the view after edits, which are in order and do not overlap.

        With `context`, only the edits and that many characters on both sides of each are kept, so
        that scanning a long text again costs only what changed.
        """
        segments: list[_Segment] = []
        place = 0
        for start, stop, text in edits:
            if context is None or start - place <= 2 * context:
                segments += self._segments(place, start)
            else:
                segments += self._segments(place, min(place + context, start) if place else 0)
                last = segments[-1][1][1] if segments else 0
                segments.append(("\n", (last, last), True))  # between excerpts
                segments += self._segments(start - context, start)
            if text:
                segments.append((text, self.span(start, stop), False))
            place = stop
        end = len(self.text)
        segments += self._segments(place, end if context is None else min(end, place + context))
        return View(segments)

    def _segments(self, start: int, end: int) -> Iterator[_Segment]:
        """Yield the segments of a span of this view."""
        places = self._places
        while start < end:
            number = bisect_right(places, start) - 1
            stop = min(end, places[number + 1]) if number + 1 < len(places) else end
            yield self.text[start:stop], self.span(start, stop), self._kept[number]
            start = stop


def views(text: str) -> list[View]:
    """Return the text as it reads, first, and then its other views.

    The others contain only what differs, with some context: lookalike letters, decoded text (also
    nested), and table cells with their column names.
    """
    base = _folded(text)
    base.is_prose = True
    found = [base]
    edits = lookalikes(base.text)
    if edits:
        found.append(base.edited(edits, _CONTEXT))
    inner = base
    for _ in range(_MOST_NESTED):
        edits = decoded(inner.text)
        if not edits:
            break
        inner = inner.edited(edits, _CONTEXT)
        # Decoded text may again have unusual characters.
        found.append(_folded_again(inner))
        found[-1].is_prose = any(
            len(said) >= _LEAST_PROSE and said.count(" ") >= _LEAST_GAPS for _, _, said in edits
        )
    edits = labelled_cells(base.text)
    if edits:
        found.append(base.edited(edits, _CONTEXT))
        found[-1].is_moved = True
    return found


_CONTEXT = 80
_MOST_NESTED = 3
_LEAST_PROSE, _LEAST_GAPS = 24, 3


def _folded(text: str) -> View:
    view = View([(text, (0, len(text)), True)])
    edits = hidden(text)
    return _folded_again(view.edited(edits) if edits else view)


def _folded_again(view: View) -> View:
    """Return the view in plain characters; nothing is moved if each is replaced one for one."""
    plain = folds(view.text)
    if not plain:
        return view
    longer = {letter for letter, fold in plain.items() if len(fold) != 1}
    if longer:
        any_of_them = re.compile("|".join(map(re.escape, longer)))
        edits = [(*m.span(), plain[m[0]]) for m in any_of_them.finditer(view.text)]
        view = view.edited(edits)
    view.text = view.text.translate(str.maketrans(plain))
    return view
