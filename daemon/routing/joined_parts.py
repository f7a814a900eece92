"""Texts over the seams of parts, where something may have been split over messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .finding import Finding, TextPart

_REACH = 120
_NEIGHBOURS = (1, 2)  # the answer in between is a part too
_SHORT, _LEAST_DIGITS = 64, 2
_MOST_PIECES = 24


class Piece(NamedTuple):
    """`length` characters from `offset` of a part, which stand at `start` in the joined text."""

    part: int
    offset: int
    start: int
    length: int


class Joined(NamedTuple):
    """Pieces of several parts as one text."""

    text: str
    pieces: tuple[Piece, ...]

    def spread(self, finding: Finding) -> list[Finding]:
        """What was found, in each part that it reaches into; nothing if that is only one."""
        found: list[Finding] = []
        for piece in self.pieces:
            start = max(finding.start, piece.start) - piece.start + piece.offset
            end = min(finding.end, piece.start + piece.length) - piece.start + piece.offset
            if start < end:
                found.append(_at(finding, piece.part, start, end))
        return found if len(found) > 1 else []


def joined(parts: Sequence[TextPart]) -> Iterator[Joined]:
    """The ends and beginnings of parts that follow one another, and rows of short ones.

    Only where something may go on: a number, an address or a long name at the seam.
    """
    for number, part in enumerate(parts):
        for step in _NEIGHBOURS:
            if number + step < len(parts) and _may_go_on(part.text, parts[number + step].text):
                yield _join([(number, part.text), (number + step, parts[number + step].text)], "")
                yield _join([(number, part.text), (number + step, parts[number + step].text)], " ")
    for row in _rows(parts):
        yield _join(row, "")
        yield _join(row, " ")


def _rows(parts: Sequence[TextPart]) -> Iterator[list[tuple[int, str]]]:
    """Three or more short parts that are pieces, with at most one other part between them."""
    row: list[tuple[int, str]] = []
    for number, part in enumerate(parts):
        if _may_be_a_piece(part.text.strip()):
            if (row and number - row[-1][0] > max(_NEIGHBOURS)) or len(row) == _MOST_PIECES:
                if len(row) > 2:
                    yield row
                row = []
            row.append((number, part.text))
    if len(row) > 2:
        yield row


def _may_be_a_piece(text: str) -> bool:
    """Whether it is short, and has digits or is a single word that is none of a sentence."""
    if not 0 < len(text) <= _SHORT:
        return False
    return sum(map(str.isdigit, text)) >= _LEAST_DIGITS or not any(map(str.isspace, text))


def _join(texts: list[tuple[int, str]], gap: str) -> Joined:
    pieces: list[Piece] = []
    said: list[str] = []
    place = 0
    for index, (part, text) in enumerate(texts):
        start = len(text) - len(text.lstrip()) if index else max(0, len(text) - _REACH)
        last = index == len(texts) - 1
        end = min(len(text), start + _REACH) if last else len(text.rstrip())
        if index and not last:
            end = min(end, start + _REACH)
        end = max(start, end)
        pieces.append(Piece(part, start, place, end - start))
        said.append(text[start:end])
        place += end - start + len(gap)
    return Joined(gap.join(said), tuple(pieces))


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


def _at(finding: Finding, part: int, start: int, end: int) -> Finding:
    return Finding(
        kind=finding.kind,
        start=start,
        end=end,
        value=finding.value,
        detector=finding.detector,
        part=part,
        certainty=finding.certainty,
    )
