"""Joins neighbouring parts of a request, in case a value was split over messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ..detectors.finding import SensitiveFinding, TextPart
from ..views.text_fragments import piece_of

_REACH = 120
_NEIGHBOURS = (1, 2)  # the answer in between is a part too
_SHORT, _LONGEST, _LEAST_DIGITS = 64, 128, 2
_MOST_PIECES = 24


class JoinedSpan(NamedTuple):
    """`length` characters from `offset` of a part, located at `start` in the joined text."""

    part: int
    offset: int
    start: int
    length: int


class JoinedText(NamedTuple):
    """Pieces of several parts as one text."""

    text: str
    pieces: tuple[JoinedSpan, ...]

    def spread(self, finding: SensitiveFinding) -> list[SensitiveFinding]:
        """Return a finding as one per part that it covers; none if it lies in a single part."""
        found: list[SensitiveFinding] = []
        for piece in self.pieces:
            start = max(finding.start, piece.start) - piece.start + piece.offset
            end = min(finding.end, piece.start + piece.length) - piece.start + piece.offset
            if start < end:
                found.append(replace(finding, part=piece.part, start=start, end=end))
        return found if len(found) > 1 else []


class _Cut(NamedTuple):
    """From `start` up to `end` of a part's text; `marked`: without a label such as `2/3:`."""

    part: int
    text: str
    start: int
    end: int
    marked: bool


def joined(parts: Sequence[TextPart]) -> Iterator[JoinedText]:
    """Yield the joins of adjacent parts, and of runs of short ones.

    Only if a value may continue: a number, an address or a long name at the seam.
    """
    for number, part in enumerate(parts):
        for step in _NEIGHBOURS:
            if number + step < len(parts) and _may_go_on(part.text, parts[number + step].text):
                pair = [
                    _trimmed(number, part.text),
                    _trimmed(number + step, parts[number + step].text),
                ]
                yield _join(pair, "")
                yield _join(pair, " ")
    for row in _rows(parts):
        yield _join(row, "")
        yield _join(row, " ")


def _rows(parts: Sequence[TextPart]) -> Iterator[list[_Cut]]:
    """Yield runs of short parts that may be pieces: three or more, or labelled, at most one other
    between.
    """
    row: list[_Cut] = []
    for number, part in enumerate(parts):
        cut = _cut(number, part.text)
        if cut is not None:
            if (row and number - row[-1].part > max(_NEIGHBOURS)) or len(row) == _MOST_PIECES:
                yield from _as_row(row)
                row = []
            row.append(cut)
    yield from _as_row(row)


def _as_row(row: list[_Cut]) -> Iterator[list[_Cut]]:
    """Yield only the labelled ones if there are any: the others are answers between."""
    marked = [cut for cut in row if cut.marked]
    if len(marked) > 1:
        yield marked
    elif len(row) > 2:
        yield row


def _trimmed(number: int, text: str) -> _Cut:
    start = len(text) - len(text.lstrip())
    return _Cut(number, text, start, max(start, len(text.rstrip())), False)


def _cut(number: int, text: str) -> _Cut | None:
    """Return the piece in a short part, without `2/3:` or `second half:` before it."""
    if not text or len(text) > _LONGEST:
        return None
    whole = _trimmed(number, text)
    piece = piece_of(text, 0, len(text))
    if piece is None or len(piece.text) > _SHORT:
        return whole if _may_be_a_piece(text.strip()) else None
    if piece.start > whole.start:
        return _Cut(number, text, piece.start, piece.end, True)
    return whole if _may_be_a_piece(piece.text) or piece.text.isupper() else None


def _may_be_a_piece(text: str) -> bool:
    """Whether it is short, and has digits or is a single word that does not read as a sentence."""
    if not 0 < len(text) <= _SHORT:
        return False
    return sum(map(str.isdigit, text)) >= _LEAST_DIGITS or not any(map(str.isspace, text))


def _join(cuts: Sequence[_Cut], gap: str) -> JoinedText:
    """Join the pieces, with the text before the first and after the last as context."""
    pieces: list[JoinedSpan] = []
    said: list[str] = []
    place = 0
    for index, cut in enumerate(cuts):
        last = index == len(cuts) - 1
        start = cut.start if index else max(0, cut.end - _REACH)
        end = min(len(cut.text) if last else cut.end, start + _REACH)
        end = max(start, end)
        pieces.append(JoinedSpan(cut.part, start, place, end - start))
        said.append(cut.text[start:end])
        place += end - start + len(gap)
    return JoinedText(gap.join(said), tuple(pieces))


def _may_go_on(before: str, behind: str) -> bool:
    tail, head = before[-_REACH:].rstrip()[-40:], behind[:_REACH].lstrip()[:40]
    if not tail or not head or not _joins(tail[-1]) or not _joins(head[0]):
        return False
    last, first = tail.split()[-1], head.split()[0]
    if "@" in last or "@" in first:
        return True
    numbers = any(map(str.isdigit, tail[-24:])) and any(map(str.isdigit, head[:24]))
    return numbers or (len(last) >= 8 and not last[1:].isalpha()) or _is_mixed(last)


def _is_mixed(word: str) -> bool:
    return len(word) >= 8 and any(map(str.isupper, word[1:])) and any(map(str.islower, word))


def _joins(letter: str) -> bool:
    return letter.isalnum() or letter in "@._+=/-"
