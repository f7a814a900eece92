"""Index of a text, computed once for all detectors."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ahocorasick_rs

_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"[0-9]+")
_ODD = re.compile(r"[^\t\n\r\x20-\x7e]+")
_LONG, _GAP = 8, 3

_PIECES: dict[str, None] = {}  # in order of arrival

Span = tuple[int, int]
"""Start and end in a text."""


class TextVocabulary(NamedTuple):
    """The words of a text in lower case: `row` in order, `runs` each once, `joined` as one text.

    In `row` and `joined` numbers are words too, and letters with digits among them are one; `runs`
    has every run of letters.
    """

    row: list[str]
    runs: frozenset[str]
    joined: str


@functools.lru_cache(maxsize=4)
def vocabulary(text: str) -> TextVocabulary:
    """Return the words of the text."""
    row = _WORD.findall(lowered(text))
    distinct = set(row)
    joined = " ".join(distinct)
    mixed = [word for word in distinct if not word.isalpha()]
    return TextVocabulary(row, frozenset(distinct.union(_LETTERS.findall(" ".join(mixed)))), joined)


@functools.lru_cache(maxsize=4)
def lowered(text: str) -> str:
    """Return the text in lower case, every character in its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # A few letters are longer in lower case.
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


@functools.lru_cache(maxsize=4)
def digit_runs(text: str) -> list[Span]:
    """Return the span of each run of digits."""
    return [match.span() for match in _DIGITS.finditer(text)]


@functools.lru_cache(maxsize=4)
def digits_together(text: str) -> int:
    """Return the length of the longest run of digits with at most three other characters between
    any two.
    """
    most, here, last = 0, 0, -_GAP
    for start, end in digit_runs(text):
        here = end - start + (here if start - last <= _GAP else 0)
        most = max(most, here)
        last = end
    return most


@functools.lru_cache(maxsize=4)
def long_words(text: str) -> list[Span]:
    """Return the spans of space-separated words of at least eight characters."""
    found: list[Span] = []
    place = 0
    for word in text.split():
        if len(word) >= _LONG:
            start = text.index(word, place)
            place = start + len(word)
            found.append((start, place))
    return found


def register_keywords(pieces: Iterable[str]) -> None:
    """Add keywords in lower case to those that `keywords_in` searches for."""
    _PIECES.update(dict.fromkeys(pieces))
    _automaton.cache_clear()


@functools.lru_cache(maxsize=4)
def keywords_in(text: str) -> frozenset[str]:
    """Return all registered keywords that occur in the text, in any case; in one pass."""
    pieces, automaton = _automaton()
    lower = lowered(text)
    if not lower.isascii():
        lower = lower.encode("utf-8", "replace").decode()  # it does not split characters
    matches = automaton.find_matches_as_indexes(lower, overlapping=True)
    return frozenset(pieces[number] for number, _, _ in matches)


@functools.lru_cache(maxsize=1)
def _automaton() -> tuple[list[str], ahocorasick_rs.AhoCorasick]:
    import ahocorasick_rs  # here, since the daemon itself never searches

    pieces = list(_PIECES)
    return pieces, ahocorasick_rs.AhoCorasick(pieces)


@functools.lru_cache(maxsize=4)
def odd_letters(text: str) -> frozenset[str]:
    """Return the characters that are not printable ASCII or line ends."""
    return frozenset("".join(_ODD.findall(text)))
