"""Detects national ids, tax numbers and vehicles by shape and check digit."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from ...text_analysis.data_files import word_lists
from ...text_analysis.text_index import Span
from ..context_words import ContextWords
from ..finding import FindingKind, SensitiveFinding
from .national_id_rules import RULES, IdRule, is_vin

_PIECE = re.compile(r"[A-Za-z0-9]+")
_REGION = re.compile(r"[0-9](?:[A-Za-z0-9]|[ .\-/–(\u00a0]{1,3}(?=[A-Z0-9])){3,}+")
_GAPS = frozenset({" ", "-", ".", "/", "–", "(", " - ", "\u00a0"})
_SHAPE = str.maketrans(
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "9" * 10 + "A" * 52
)
_MOST_PIECES, _MANY_PIECES = 8, 12
"""Pieces of a number at most; in a row of more than the second, one is a number by chance."""
_LEAST, _MOST, _VIN = 8, 18, 17
_WORDS = ContextWords("ids", before=60, after=24)
_IN_CAPITALS = re.compile(rf"\b(?:{'|'.join(word_lists()['ids in capitals'])})\b(?!\()")
_OF_GOODS = re.compile(r"\b(?:isbn|issn|ean|gtin|upc)\b|cve-\Z", re.IGNORECASE)
# Fractions, versions with a date, times with a number, and addresses of machines and networks.
_NO_ID = re.compile(
    r"\d{1,3}\.\d{6,}\Z|(?:19|20)\d{6}-\d\Z|(?:19|20)\d{12} \d\Z"
    r"|(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.|(?=[/ ]|\Z))){4}(?:/\d\d?| \d{2,5})?\Z"
    r"|(?:10|172|192)(?:-(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}\Z"
)
# These are so specific that they count from a distance.
_CLEAR_WORDS = ContextWords("specific ids", before=120, after=0)


_RULES: dict[str, list[IdRule]] = {}
for _rule in RULES:
    _RULES.setdefault(_rule.shape, []).append(_rule)


def find_national_ids(text: str) -> Iterator[SensitiveFinding]:
    """Yield numbers with a layout or a check digit of their own; most need a nearby word."""
    done = 0
    for region in _REGION.finditer(text):
        start = _left(text, region.start(), done)
        if region.end() - start < _LEAST:
            continue
        row: list[Span] = []
        for piece in _PIECE.finditer(text, start, region.end()):
            if row and text[row[-1][1] : piece.start()] not in _GAPS:
                yield from _in_row(text, row)
                row = []
            row.append(piece.span())
        yield from _in_row(text, row)
        done = region.end()


def _in_row(text: str, row: list[Span]) -> Iterator[SensitiveFinding]:
    """Try every run of adjacent pieces, the longest first."""
    plain = "".join([text[start:end] for start, end in row])
    if len(plain) < _LEAST:
        return
    shape = plain.translate(_SHAPE)
    places = [0, *accumulate(end - start for start, end in row)]
    # Search for words once per row, since a table has many numbers and no words.
    left, right = row[0][0], row[-1][1]
    said = functools.cache(lambda: _is_near_a_word(text, left, right))
    if len(row) > _MANY_PIECES and not said():
        return
    first = 0
    while first < len(row):
        begin, taken = places[first], 1
        for last in range(min(first + _MOST_PIECES, len(row)), first, -1):
            stop = places[last]
            if not _LEAST <= stop - begin <= _MOST:
                continue
            rules = _RULES.get(shape[begin:stop], ())
            if not rules and stop - begin != _VIN:
                continue
            span = row[first][0], row[last - 1][1]
            finding = _as_id(text, span, plain[begin:stop].upper(), rules, said)
            if finding is not None:
                yield finding
                taken = last - first
                break
        first += taken


def _as_id(
    text: str,
    span: Span,
    plain: str,
    rules: Sequence[IdRule],
    said: Callable[[], bool],
) -> SensitiveFinding | None:
    start, end = span
    if not _stands_alone(text, start, end):
        return None
    # A prefix of parcel numbers is left out, and so are fractions and paths of drawings.
    if text[start:end] == plain and plain[:2] != "1Z" and len(plain) == _VIN and is_vin(plain):
        return SensitiveFinding(FindingKind.VEHICLE, start, end, plain)
    raw = text[start:end]
    if not rules or _NO_ID.match(raw):
        return None
    layout = raw.translate(_SHAPE)
    if text[end : end + 1] == ")" and "(" in layout:
        layout += ")"
    for rule in rules:
        own = layout in rule.layouts or ("*" in rule.layouts and raw.upper() == raw)
        if not (own or said()) or not rule.holds(plain):
            continue
        if _OF_GOODS.search(text, max(0, start - 12), start):
            return None
        if own or _is_near_a_word(text, start, end):
            return SensitiveFinding(rule.kind, start, end, plain)
    return None


def _is_near_a_word(text: str, start: int, end: int) -> bool:
    """Whether words for ids occur in the span, near it, or some in capitals before it."""
    if _WORDS.around(text, start, end) or _CLEAR_WORDS.before(text, start):
        return True
    return _IN_CAPITALS.search(text, max(0, start - 48), start) is not None


def _left(text: str, start: int, least: int) -> int:
    """Return where the letters before the first digit of an id begin."""
    least = max(least, start - 8)
    while start > least and (
        text[start - 1].isalnum() or (text[start - 1] in " -" and text[start - 2].isupper())
    ):
        start -= 1
    return start


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether it is not part of a longer number or name."""
    before, behind = text[max(0, start - 2) : start], text[end : end + 2]
    if before[-1:] in ("_", "+", "$", "€", "£") or behind[:1] in ("_", "%"):
        return False
    if before[-1:] == "/" and behind[:1] == "/":
        return False
    joined = (".", ",", "-", "/", ":")
    if len(before) == 2 and before[1] in joined and before[0].isdigit():
        return False
    return not (len(behind) == 2 and behind[0] in joined and behind[1].isdigit())
