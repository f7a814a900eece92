"""Puts the column heads of tables beside each of their cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..text_analysis.text_index import Span
from .text_edits import TextEdit

_LONGEST_ROW, _MOST_WORDS = 1_000, 4
# Column names are short and begin with a letter. Repetitions are possessive, or a long line that is
# no head would be tried in every way.
_NAME = (
    r"[\"'`*]{0,2}[^\W\d_]"
    r"(?:[\w.#°º’'/()&*\"`\u0900-\u0dff-]|[ ](?=[\w.#(&*\"`-])){0,31}+"  # vowel signs are no \\w
)
_HEAD = re.compile(rf"[ \[|]*+{_NAME}(?:(?: ?[,;\t|] ?| {{2,}}){_NAME})++[ \],|]*+\r?")
_DIGIT = re.compile(r"[0-9]")
_RULE = re.compile(r"[\s|:+=-]{3,}+")
_WORDS = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"(?<![^\s,;(\[|])([\"'])[^\"'\n]*\1(?=[\s,;)\]|]|$)")
_WIDE_GAP = re.compile(r" {2,}|\t+")
_AROUND_CELLS = " \t\r\"'`*[]"
_IMPERSONAL_NAMES = (
    "id qty quantity price cost total sum amount count value date time timestamp epoch step loss "
    "acc open high low close volume size width height length weight status x y z n sku rank score"
)
_IMPERSONAL = frozenset(_IMPERSONAL_NAMES.split())
_VALUES = re.compile(r"\(([^()\n]{3,400})\)\s{0,8}values(?=\s{0,8}\()", re.IGNORECASE)
_TUPLE = re.compile(r"[\s,]{0,16}\(((?:[^()'\"]++|'[^'\n]*+'|\"[^\"\n]*+\")++)\)")
_TAG = re.compile(r"<(table|tr|th|td)\b[^>]{0,99}>([^<]{0,40})", re.IGNORECASE)


class _Cell(NamedTuple):
    """A cell with its column's name; `gap` is the end of the one before it in the row."""

    name: str
    gap: int
    start: int
    end: int


Concerns = Callable[[list[str]], bool]
"""Whether the columns of these names are wanted, also without digits in the rows."""


def table_cells(text: str, concerns: Concerns) -> Iterator[tuple[str, int, int]]:
    """Yield the name of its column, and the span, for each cell of a table.

    Tables with commas, semicolons, tabs, bars or wide gaps between the columns, of HTML, and the
    rows of an SQL `INSERT`; only rows with digits, unless their columns concern the caller.
    """
    for cell in _all_cells(text, concerns):
        yield cell.name, cell.start, cell.end


def labelled_cells(text: str) -> list[TextEdit]:
    """Return the text before each cell of a table, to be replaced by its column's name on a new
    line; in order, disjoint.
    """
    cells = _all_cells(text, lambda names: False)
    found = sorted((cell.gap, cell.start, f"\n{cell.name}: ") for cell in cells)
    return [found[0], *(b for a, b in pairwise(found) if b[0] >= a[1])] if found else []


def _all_cells(text: str, concerns: Concerns) -> Iterator[_Cell]:
    if "\n" in text:
        yield from _of_lines(text, concerns)
    if "<th" in text or "<TH" in text:
        yield from _of_html(text)
    if "values" in text or "VALUES" in text:
        yield from _of_inserts(text)


def _of_lines(text: str, concerns: Concerns) -> Iterator[_Cell]:
    names, sign, place = list[str](), "", 0
    lines = text.split("\n")
    behind = [*lines[1:], ""]
    for line, following in zip(lines, behind, strict=True):
        cells = _cells(line, sign) if names and len(line) <= _LONGEST_ROW else []
        if sign == "," and 0 < len(cells) - len(names) <= 2:
            # `March 5, 1990` at the end, with missing quotes.
            cells = [*cells[: len(names) - 1], (cells[len(names) - 1][0], cells[-1][1])]
        if sign == "|" and len(cells) == len(names) + 1:
            cells = cells[:-1]  # text that follows the last bar
        if names and len(cells) == len(names):
            if any(map(str.isdigit, line)) or concerns(names):
                yield from _beside(names, cells, place)
        elif not names or not _RULE.fullmatch(line):
            known = 3 <= len(line) <= _LONGEST_ROW
            names, sign = _head(line, following, concerns) if known else ([], "")
        place += len(line) + 1


def _head(line: str, following: str, concerns: Concerns) -> tuple[list[str], str]:
    """Return the names of columns, and the separator; none for any other line."""
    sign = next((sign for sign in "\t|;," if sign in line), "  ")
    if sign not in following or (sign in ",;" and line[-1] in ".!?"):
        return [], ""
    bare = _DIGIT.search(following) is None and _RULE.fullmatch(following) is None
    sign = sign.strip(" ")
    if _HEAD.fullmatch(line) is None:
        # A sentence may precede it.
        begin = max(line.rfind(end) for end in (". ", ": ", "? ", "! ")) + 2
        line = line[begin:] if begin > 1 else ""
        if _HEAD.fullmatch(line) is None:
            return [], ""
    names = [line[start:end] for start, end in _cells(line, sign)]
    if bare and not concerns(names):
        return [], ""
    short = all(name and len(_WORDS.findall(name)) <= _MOST_WORDS for name in names)
    named = short and sum(map(str.isdigit, line)) <= len(names)
    return (names, sign) if named and len(names) > 1 and _are_of_people(names) else ([], "")


def _are_of_people(names: Sequence[str]) -> bool:
    """Whether a table may be about people: one about things needs no second scan."""
    return not _IMPERSONAL.issuperset(map(str.lower, names))


def _cells(line: str, sign: str) -> list[Span]:
    """Return the spans of a row's cells, without quotes and brackets around them."""
    plain = line.rstrip(" \t\r")
    plain = plain[:-1] if plain.endswith("],") else plain
    begin = 0
    if sign == "|":
        begin = len(plain) - len(plain.lstrip(" ").removeprefix("|"))
        plain = plain.removesuffix("|")
    if '"' in plain or "'" in plain:
        plain = _QUOTED.sub(lambda match: "_" * len(match[0]), plain)
    spans: list[Span] = []
    place = begin
    for piece in plain[begin:].split(sign) if sign else _WIDE_GAP.split(plain):
        place = plain.index(piece, place)
        whole = line[place : place + len(piece)]
        start = place + len(whole) - len(whole.lstrip(_AROUND_CELLS))
        spans.append((start, max(start, place + len(whole.rstrip(_AROUND_CELLS)))))
        place += len(piece) + len(sign)
    return spans


def _beside(names: Sequence[str], cells: Sequence[Span], place: int) -> Iterator[_Cell]:
    """Yield a row that begins at this position; the first gap is the end of the line before."""
    done = -1
    for name, (start, end) in zip(names, cells, strict=True):
        yield _Cell(name, place + done, place + start, place + end)
        done = end


def _of_inserts(text: str) -> Iterator[_Cell]:
    for head in _VALUES.finditer(text):
        names = [head[1][start:end] for start, end in _cells(head[1], ",")]
        row = _TUPLE.match(text, head.end()) if _are_of_people(names) else None
        while row is not None:
            cells = _cells(row[1], ",")
            if len(cells) == len(names):
                yield from _beside(names, cells, row.start(1))
            row = _TUPLE.match(text, row.end())


def _of_html(text: str) -> Iterator[_Cell]:
    names, column, is_head = list[str](), 0, False
    for tag in _TAG.finditer(text):
        kind = tag[1].lower()
        if kind == "table":
            names = []
        elif kind == "tr":
            column, is_head = 0, False
        elif kind == "th":
            # If each row has a head of its own, that is already beside the cell.
            names = names if is_head else []
            names.append(tag[2].strip())
            is_head = True
        else:
            if not is_head and column < len(names):
                yield _Cell(names[column], tag.start(), *tag.span(2))
            column += 1
