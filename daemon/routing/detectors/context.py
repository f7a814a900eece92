"""Words beside a number, which say what it is."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

_BEGIN = 4
_TOKEN = re.compile(r"[^\W\d_]+")


class ContextWords:
    """Looks for words before and behind a place, so many characters away.

    `words` has spaces between them, in lower case; one that ends in `*` may go on, and `_` is
    any gap in one. Scripts without spaces have no edges of words, so theirs may stand anywhere.
    """

    def __init__(self, words: str, before: int = 48, after: int = 20) -> None:
        self._before, self._after = before, after
        single = [word for word in words.split() if "_" not in word and _has_edges(word)]
        self._whole = frozenset(word for word in single if not word.endswith("*"))
        self._begins = tuple(word[:-1] for word in single if word.endswith("*"))
        others = {word.rstrip("*") for word in words.split()} - self._whole - set(self._begins)
        self._pieces = tuple(word for word in others if "_" not in word)
        self._rows = tuple(word.replace("_", " ") for word in others if "_" in word)

    def near(self, text: str, start: int, end: int) -> bool:
        """Whether one of them stands close to the stretch, not counting what is in it."""
        return self.before(text, start) or self._among(text[end : end + self._after])

    def around(self, text: str, start: int, end: int) -> bool:
        """Whether one of them stands in the stretch or close to it."""
        return self._among(text[max(0, start - self._before) : end + self._after])

    def before(self, text: str, start: int) -> bool:
        """Whether one of them stands close before the place."""
        return self._among(text[max(0, start - self._before) : start])

    def _among(self, window: str) -> bool:
        window = window.lower()
        tokens = _TOKEN.findall(window)
        if any(token in self._whole or token.startswith(self._begins) for token in tokens):
            return True
        row = " ".join(tokens)
        return any(map(row.__contains__, self._rows)) or any(map(row.__contains__, self._pieces))


@functools.lru_cache(maxsize=4)
def lowered(text: str) -> str:
    """The text in lower case, every character in its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # A few letters are longer in lower case.
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def word_ends(lower: str, words: tuple[str, ...], whole: bool = False) -> Iterator[int]:
    """Where each of the words ends in a text in lower case.

    Those that are not `whole` may be a piece of a longer name.
    """
    short, others = _by_begin(words)
    begins = _begins(lower)
    for begin in filter(begins.__contains__, others):
        for word in others[begin]:
            yield from _ends(lower, word, whole)
    for word in short:
        yield from _ends(lower, word, whole)


def _ends(lower: str, word: str, whole: bool) -> Iterator[int]:
    edges = whole and _has_edges(word)
    place = lower.find(word)
    while place >= 0:
        end = place + len(word)
        if not edges or _apart(lower, place, end):
            yield end
        place = lower.find(word, end)


def forget_texts() -> None:
    """Drop the last texts, which are kept because every detector asks for the same."""
    lowered.cache_clear()
    _begins.cache_clear()


def windows(places: Iterable[tuple[int, int]], around: int, size: int) -> Iterator[tuple[int, int]]:
    """Stretches of a text of `size` that hold all places with so much around them, merged."""
    begin, stop = 0, 0
    for start, end in places:
        if start - around > stop:
            if stop:
                yield begin, stop
            begin = start - around
        stop = min(size, end + around)
    if stop:
        yield begin, stop


@functools.lru_cache(maxsize=8)
def _begins(lower: str) -> frozenset[str]:
    """Every four letters in a row: a look here is many times cheaper than a search of the text."""
    return frozenset(lower[place : place + _BEGIN] for place in range(len(lower) - _BEGIN + 1))


@functools.lru_cache(maxsize=64)
def _by_begin(words: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """The words that are too short for `_begins`, and the others by how they begin."""
    others: dict[str, list[str]] = {}
    for word in words:
        if len(word) >= _BEGIN:
            others.setdefault(word[:_BEGIN], []).append(word)
    return tuple(word for word in words if len(word) < _BEGIN), others


def _has_edges(word: str) -> bool:
    return all(ord(letter) < 0x0590 or ord(letter) in range(0x1E00, 0x2000) for letter in word)


def _apart(lower: str, start: int, end: int) -> bool:
    before = lower[start - 1] if start else " "
    behind = lower[end] if end < len(lower) else " "
    return not before.isalpha() and not behind.isalpha()
