"""Rejoins numbers, addresses and keys that were split within one text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..text_analysis.checksums import has_iban_check_digits, luhn
from ..text_analysis.top_level_domains import TOP_LEVEL_DOMAINS
from .text_edits import TextEdit
from .text_fragments import TextFragment, is_code, rows_of_pieces

_MOST_PIECES = 12
_GROUPED = re.compile(r"[0-9 .\-–/_\u00a0\u2009\u202f]+")
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.([A-Za-z]{2,12})")
_CODE = re.compile(r"[\w.+/=:-]{20,300}")
_USUAL = re.compile(r"\d{4}\D+(?:\d{4}\D+){2}\d{4}(?:\D*\d{1,3})?|\d{4}\D+\d{6}\D+\d{4,5}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SIZES = frozenset({(3, 2, 4), (3, 3, 4)})
_CARD_SIZES = frozenset({(4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (6, 13)})
_LAYOUT = re.compile(
    r"\d{3}-\d\d-\d{4}|\d{3}\.\d{3}\.\d{3}-\d\d|\d{6}-\d{4}|\d{3}-\d{4}-\d{7}-\d"
    r"|\d{5}-\d{7}-\d|\d{6}-\d\d-\d{4}|\d{3}-\d{3}-\d{3}"
)
_ORDINALS = ("part", "half", "first", "second", "third", "rest", "piece", "teil", "hälfte")


def rejoined(text: str) -> list[TextEdit]:
    """Return spans whose pieces together are a card, an account, an address or perhaps a key.

    A card and an account have check digits, an address its shape; a key is recognised only by its
    letters here.
    """
    found: list[TextEdit] = []
    for row in rows_of_pieces(text):
        if len(row) > 1:
            found += _in_row(row)
    return found


def _in_row(row: Sequence[TextFragment]) -> Iterator[TextEdit]:
    first = 0
    while first < len(row) - 1:
        last = next(_ends(row, first), first)
        if last > first:
            said = "".join(piece.text for piece in row[first : last + 1])
            if _GROUPED.fullmatch(said) and not _LAYOUT.fullmatch(said):
                said = "".join(filter(str.isdigit, said))
            yield row[first].start, row[last].end, said
        elif len(row) > _MOST_PIECES:
            return  # a column of numbers, not one number in pieces
        first = last + 1


def _ends(row: Sequence[TextFragment], first: int) -> Iterator[int]:
    """Yield the ends of values that begin with this piece."""
    said = row[first].text
    for last in range(first + 1, min(len(row), first + _MOST_PIECES)):
        said += row[last].text
        window = row[first : last + 1]
        if len(said) > 300:
            return
        if _GROUPED.fullmatch(said):
            digits = "".join(filter(str.isdigit, said))
            if len(digits) > 19:
                return
            alone = len(window) == len(row)
            if _is_number(digits, said, window, alone) and not _goes_on(row, first, last):
                yield last
        elif (
            _is_account(said)
            or ("@" in said and _is_address(said, window))
            or (last == len(row) - 1 and first == 0 and _is_key(said, window))
        ):
            yield last


def _is_number(digits: str, said: str, window: Sequence[TextFragment], alone: bool) -> bool:
    """Whether the pieces are of equal length, or together in the groups of a number."""
    sizes = tuple(len(piece.text) for piece in window)
    if len(digits) < 12:
        own = sizes in _SIZES or (max(sizes) == 1 and len(digits) > 6)
        return own or (alone and _LAYOUT.fullmatch(said) is not None)
    if not luhn(digits) or len(set(digits)) < 2 or not _are_alike(window):
        return alone and _LAYOUT.fullmatch(said) is not None
    # Named or quoted pieces may be cut anywhere.
    even = len(set(sizes[:-1])) == 1 and sizes[-1] <= sizes[0]
    named = alone and all(piece.name is not None for piece in window)
    return even or named or sizes in _CARD_SIZES or _USUAL.fullmatch(said) is not None


def _goes_on(row: Sequence[TextFragment], first: int, last: int) -> bool:
    """Whether pieces of the same length precede or follow: a column of numbers."""
    size = len(row[first].text)
    before = first > 0 and len(row[first - 1].text) == size
    return before or (last + 1 < len(row) and len(row[last + 1].text) == size)


def _are_alike(window: Sequence[TextFragment]) -> bool:
    """Whether the pieces have no names, or names of pieces: `part1`, `part2`; `a`, `b`."""
    names = [piece.name.lower() for piece in window if piece.name is not None]
    if len({name.rstrip("0123456789_- ") for name in names}) < 2:
        return True
    return all(len(name) < 3 or any(map(name.__contains__, _ORDINALS)) for name in names)


def _is_account(said: str) -> bool:
    plain = "".join(filter(str.isalnum, said)).upper()
    if not 15 <= len(plain) <= 34 or not plain.isascii() or not plain[2:4].isdigit():
        return False
    return plain[:2].isalpha() and has_iban_check_digits(plain)


def _is_address(said: str, window: Sequence[TextFragment]) -> bool:
    """Whether only all together are an address, and no decorator is on a line of its own."""
    match = _ADDRESS.fullmatch(said)
    if match is None or any(_ADDRESS.search(piece.text) for piece in window):
        return False
    return match[1].lower() in TOP_LEVEL_DOMAINS


def _is_key(said: str, window: Sequence[TextFragment]) -> bool:
    if not _CODE.fullmatch(said) or any(len(piece.text) < 4 for piece in window[:-1]):
        return False
    digits = sum(map(str.isdigit, said))
    if not 2 <= digits < len(said) - 4 or any(_DATE.match(piece.text) for piece in window):
        return False
    # Named or quoted pieces may cut a key within its prefix.
    if any(piece.name is not None for piece in window[1:]):
        return all(piece.name is not None for piece in window) and _are_alike(window)
    codes = sum(is_code(piece.text) for piece in window)
    return codes > 1 and any(map(str.isalpha, window[0].text))
