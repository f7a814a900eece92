"""Finds pieces of a text that may belong together: on lines, in lists and fields, between
quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..text_analysis.text_index import Span, digit_runs

_LONGEST_PIECE, _LONGEST_LINE, _LONGEST_GAP = 200, 260, 40
# Prefixes of a piece on a line of its own: quote marks of mails, bullets, comments, item numbers,
# and field names.
_MARKS = re.compile(
    r"(?:[\s>|*•·#;+]|//|--?(?=\s)|/\*|[(\[]?(?:[0-9]{1,2}|[a-d])(?:/[0-9]{1,2})?[.):\]](?=\s))*+"
    r"(?:[\"'`]?(?P<name>[A-Za-z_][\w-]{0,24}(?: [\w-]{1,12}){0,4})[\"'`]?\s?[:=](?!=)\s?)?"
    r"[\"'`(*\s]{0,4}"
)
_CLOSERS = " \t\r\u00a0\u2009\u202f,;\\\"'`)*|"
_ENDS = _CLOSERS + ".!?"
_BEGINNING = re.compile(r"[^\w@]{0,8}(?:[\w-]{1,20}: ?)?[\w.+=/:-]*[0-9@]")
_IN_PIECES = re.compile(r"[0-9@]")
# After an item number, which has a sign itself or a word or a hash before it.
_AFTER_NUMBER = re.compile(r"(?:/[0-9]{1,2})?[.):\]]+[ \t]+(?=\S)")
_AFTER_NAMED_NUMBER = re.compile(r"[.):]?[ \t]+(?=\S)")
_NUMBER_NAMES = ("#", "no.", "nr.", "no. ", "nr. ", "part ", "step ", "teil ")
# Words between the parts of a number.
_THEN = re.compile(
    r"\b(?:then|followed by|ends? (?:with|in)|second|third|next|last|rest|other half|dann|danach"
    r"|endet|zweite|restliche|puis|ensuite|termine|seconde|luego|después|termina|segunda|poi"
    r"|finisce|seconda|depois)\b",
    re.IGNORECASE,
)
_GROUPS = re.compile(r"[0-9]{2,}(?:[ .-][0-9]{2,})*")
_AFTER_ITEMS = frozenset(".):]/ ")
_STRINGS = {sign: re.compile(rf"{sign}([^{sign}\n]*){sign}(\s?:)?") for sign in "\"'`"}
_FIELD = re.compile(r"[:=][ \t]?[\"']?(?P<value>[A-Z]{0,2}[0-9][0-9A-Z .-]{1,20})")
_FIELD_NAME = re.compile(r"(?:[A-Za-z_]\w{0,24}|(?<=[\"'])[0-9]{1,2}(?=[\"']))(?=[\"']?\s?\Z)")
# Digits and capitals in groups, or anything without a space.
_PIECE = re.compile(
    r"[A-Z0-9.–-]{1,34}+(?:[ .\-–/_\u00a0\u2009\u202f]{1,3}[A-Z0-9.-]{1,34}+){0,12}"
    r"|[\w.+@/=:-]{2,200}"
)


class TextFragment(NamedTuple):
    """Its position in the text, its value, and the name of its field, "" between quotes."""

    start: int
    end: int
    text: str
    name: str | None


def rows_of_pieces(text: str) -> Iterator[list[TextFragment]]:
    """Yield rows of adjacent pieces, for each way to separate them."""
    if "\n" in text:
        yield from _lines(text)
    runs = digit_runs(text)
    if len(runs) > 1:
        yield from _items(text, runs)
        yield from _said_in_turn(text, runs)
    for sign, strings in _STRINGS.items():
        if text.count(sign) >= 4:
            yield from _strings(text, strings)
    if runs and text.count(":") + text.count("=") > 1:
        yield from _fields(text)


def piece_of(text: str, start: int, end: int) -> TextFragment | None:
    """Return the piece in a span, without marks before it and signs around it; None if it is not
    one.
    """
    marks = _MARKS.match(text, start, end)
    begin = marks.end() if marks is not None else start
    core = text[begin:end].rstrip(_CLOSERS)
    if not core or len(core) > _LONGEST_PIECE or not _PIECE.fullmatch(core):
        return None
    return TextFragment(
        begin, begin + len(core), core, marks["name"] if marks is not None else None
    )


def _lines(text: str) -> Iterator[list[TextFragment]]:
    """Yield adjacent lines that have digits, an @ sign, or a single word."""
    place, near = 0, list[Span]()
    before: Span | None = None
    for line in text.split("\n"):
        end = place + len(line)
        if line and not line.isspace():
            if _IN_PIECES.search(line) is not None or " " not in line.strip():
                if not near and line[0] == "@" and before is not None:
                    near.append(before)
                near.append((place, end))
            else:
                if len(near) > 1:
                    yield from _on_lines(text, near)
                near = []
            before = place, end
        place = end + 1
    if len(near) > 1:
        yield from _on_lines(text, near)


def _on_lines(text: str, lines: Sequence[Span]) -> Iterator[list[TextFragment]]:
    """Yield the end of a line, whole lines, and the beginning of one, as far as they are pieces."""
    row: list[TextFragment] = []
    before = (0, 0)
    for start, end in lines:
        piece = _whole_line(text, start, end)
        if piece is None and _BEGINNING.match(text, start, end) is None:
            yield row
            row, before = [], (start, end)
            continue
        if not row:
            tail = _tail(text, *before, piece is not None and piece.text[0] == "@")
            row = [tail] if tail is not None else row
        if piece is not None:
            row.append(piece)
        elif row:
            head = _head(text, start, end)
            yield [*row, head] if head is not None else row
            row = []
        before = (start, end) if piece is None else (0, 0)
    yield row


def _whole_line(text: str, start: int, end: int) -> TextFragment | None:
    if end - start > _LONGEST_LINE:
        return None
    line = text[start:end].rstrip(_ENDS)
    last = line[line.rfind(" ") + 1 :]
    if last.isalpha() and not last.isupper() and len(last) < len(line.strip()):
        return None  # a sentence
    piece = piece_of(text, start, end)
    if piece is None or (piece.text.isalpha() and not is_code(piece.text)):
        return None
    plain = piece.text.islower() and not set("@.").intersection(piece.text)
    return None if plain and not any(map(str.isdigit, piece.text)) else piece


def _tail(text: str, start: int, end: int, of_address: bool) -> TextFragment | None:
    """Return the number, code or local part of an address at the end of a line; None without
    one.
    """
    line = text[max(start, end - _LONGEST_PIECE) : end].rstrip(_CLOSERS)
    if not line or not _joins(line[-1]):
        return None
    words = line.split(" ")
    if not (is_code(words[-1]) or of_address):
        return None
    count = 1
    while count < len(words) and not of_address and _is_group(words[-count - 1]):
        count += 1
    core = " ".join(words[-count:])
    begin = max(start, end - _LONGEST_PIECE) + len(line) - len(core)
    return TextFragment(begin, begin + len(core), core, None)


def _head(text: str, start: int, end: int) -> TextFragment | None:
    """Return the number or code at the beginning of a line; None without one."""
    first = text[start:end].partition(" ")[0]
    if first.isalpha() and first[1:].islower() and ":" not in text[start:end]:
        return None
    marks = _MARKS.match(text, start, end)
    begin = marks.end() if marks is not None else start
    words = text[begin : min(end, begin + _LONGEST_PIECE)].split(" ")
    if not is_code(words[0].rstrip(_CLOSERS + ".!?")):
        return None
    count = 1
    while count < len(words) and _is_group(words[count].rstrip(_CLOSERS + ".!?")):
        count += 1
    core = " ".join(words[:count]).rstrip(_CLOSERS + ".!?")
    return TextFragment(begin, begin + len(core), core, None)


def _joins(letter: str) -> bool:
    return letter.isalnum() or letter in "@.-_+/="


def _is_group(word: str) -> bool:
    return word.isalnum() and word.isupper() | word.isdigit() and not word.isalpha()


def is_code(word: str) -> bool:
    """Whether it has digits, an @ sign, or inner capitals."""
    if word.isalpha():
        return len(word) >= 8 and not word[1:].islower() and not word.isupper()
    return "@" in word or any(map(str.isdigit, word))


def _items(text: str, runs: Sequence[Span]) -> Iterator[list[TextFragment]]:
    """Yield `1. 4111 2. 1111 3. …` on one line."""
    marks: list[Span] = []
    for start, end in runs:
        if end - start > 2 or text[end : end + 1] not in _AFTER_ITEMS:
            continue
        number = int(text[start:end])
        mark = _mark(text, start, end) if number in (1, len(marks) + 1) else None
        if mark is None:
            continue
        if number != len(marks) + 1:  # it is 1: another list begins
            if len(marks) > 1:
                yield _between(text, marks)
            marks = []
        marks.append(mark)
    if len(marks) > 1:
        yield _between(text, marks)


def _mark(text: str, start: int, end: int) -> Span | None:
    """Return the span of an item's mark, given the position of its number."""
    before = text[max(0, start - 5) : start].lower()
    if before.endswith(_NUMBER_NAMES):
        match = _AFTER_NAMED_NUMBER.match(text, end)
        begin = start - next(len(name) for name in _NUMBER_NAMES if before.endswith(name))
    elif not before or before[-1] in " \t\n([":
        match, begin = _AFTER_NUMBER.match(text, end), start
    else:
        return None
    return (begin, match.end()) if match is not None else None


def _between(text: str, marks: Sequence[Span]) -> list[TextFragment]:
    row: list[TextFragment] = []
    for (_, start), (stop, _) in pairwise(marks):
        stop = start + len(text[start:stop].rstrip("([ \t\n"))
        piece = piece_of(text, start, stop)
        if piece is None:
            return []
        row.append(piece)
    last = marks[-1][1]
    piece = _head(text, last, min(len(text), last + 80))
    return [*row, piece] if piece is not None else row


def _said_in_turn(text: str, runs: Sequence[Span]) -> Iterator[list[TextFragment]]:
    """Yield `starts with 41111111 and ends with 11111111`."""
    for (first, end), (start, last) in pairwise(runs):
        if not 4 < start - end <= _LONGEST_GAP or last - start < 4 or end - first < 4:
            continue
        if "\n" not in text[end:start] and _THEN.search(text, end, start) is not None:
            near = [*_GROUPS.finditer(text, max(0, first - _LONGEST_GAP), last + 2 * _LONGEST_GAP)]
            yield [
                TextFragment(*group.span(), group[0], None) for group in near if group.end() >= end
            ][:4]


def _strings(text: str, strings: re.Pattern[str]) -> Iterator[list[TextFragment]]:
    """Yield adjacent quoted strings; keys are names."""
    row: list[TextFragment] = []
    name = ""
    for match in strings.finditer(text):
        if match[2]:
            name = match[1]
            continue
        said, piece = match[1].strip(_CLOSERS), None
        if 0 < len(said) <= _LONGEST_PIECE and _PIECE.fullmatch(said):
            piece = TextFragment(match.start(1), match.end(1), said, name)
        if row and (piece is None or piece.start - row[-1].end > _LONGEST_GAP):
            yield row
            row = []
        if piece is not None:
            row.append(piece)
        name = ""
    yield row


def _fields(text: str) -> Iterator[list[TextFragment]]:
    """Yield `a = 4111; b = 1111` on one line."""
    near: list[re.Match[str]] = []
    for match in _FIELD.finditer(text):
        if near and match.start() - near[-1].end() > _LONGEST_GAP:
            yield from _named(text, near)
            near = []
        near.append(match)
    yield from _named(text, near)


def _named(text: str, near: Sequence[re.Match[str]]) -> Iterator[list[TextFragment]]:
    """Yield adjacent named values."""
    row: list[TextFragment] = []
    for match in near if len(near) > 1 else ():
        name = _FIELD_NAME.search(text, max(0, match.start() - 28), match.start())
        if name is None:
            yield row
            row = []
        else:
            start, value = match.start("value"), match["value"].rstrip(_CLOSERS)
            row.append(TextFragment(start, start + len(value), value, name[0]))
    yield row
