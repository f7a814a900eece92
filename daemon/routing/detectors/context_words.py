"""Words near a number that indicate its meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..text_analysis.character_folding import folds
from ..text_analysis.data_files import word_lists
from ..text_analysis.text_index import Span, keywords_in, lowered, register_keywords, vocabulary

_TOKEN = re.compile(r"[^\W\d_]+")


class ContextWords:
    """Looks for words within a number of characters before and after a position.

    Scripts without spaces have no word boundaries, so their words match anywhere.
    """

    def __init__(self, name: str, before: int = 48, after: int = 20) -> None:
        """`name` is that of a list in `words.txt`; a space in a word stands for any gap."""
        self._before, self._after = before, after
        words = list(map(_folded, word_lists()[name]))
        single = [word for word in words if " " not in word and _has_edges(word)]
        self._whole = frozenset(word for word in single if not word.endswith("*"))
        self._begins = tuple(word[:-1] for word in single if word.endswith("*"))
        self._twos = frozenset(begin[:2] for begin in self._begins)
        others = {word.rstrip("*") for word in words} - self._whole - set(self._begins)
        self._rows = tuple(word if " " in word else word.replace("-", " ") for word in others)

    def near(self, text: str, start: int, end: int) -> bool:
        """Whether a word occurs near the span, not counting the span itself."""
        return self.before(text, start) or self._among(text[end : end + self._after])

    def around(self, text: str, start: int, end: int) -> bool:
        """Whether a word occurs in the span or near it."""
        return self._among(text[max(0, start - self._before) : end + self._after])

    def before(self, text: str, start: int) -> bool:
        """Whether a word occurs shortly before the position."""
        return self._among(text[max(0, start - self._before) : start])

    def _among(self, window: str) -> bool:
        window = window.lower()
        tokens = _TOKEN.findall(window)
        if not self._whole.isdisjoint(tokens):
            return True
        if any(token.startswith(self._begins) for token in tokens if token[:2] in self._twos):
            return True
        row = " ".join(tokens)
        return any(map(row.__contains__, self._rows))


class Phrases:
    """Words and phrases in lower case, searched for in whole texts.

    Unless `whole`, they may be part of a longer word.
    """

    def __init__(self, name: str, whole: bool = False) -> None:
        """`name` is that of a list in `words.txt`."""
        phrases = tuple(map(_folded, word_lists()[name]))
        self._edged = frozenset(phrase for phrase in phrases if whole and _has_edges(phrase))
        self._exact: dict[str, list[str]] = {}
        self._within: dict[str, list[str]] = {}
        for phrase in phrases:
            core = max(_TOKEN.findall(phrase), key=len)
            table = self._exact if phrase in self._edged else self._within
            table.setdefault(core, []).append(phrase)
        register_keywords(self._within)
        # Sets, since an intersection with the keys of a dict visits every word of the text.
        self._cores_within, self._cores = frozenset(self._within), frozenset(self._exact)

    def present(self, text: str) -> list[str]:
        """Return the phrases whose longest word is in the text, which rules out nearly all
        of them.
        """
        found = [self._within[core] for core in self._cores_within & keywords_in(text)]
        if self._exact:
            runs = vocabulary(text).runs
            found += [self._exact[core] for core in self._cores & runs]
        return [phrase for phrases in found for phrase in phrases]

    def ends(self, text: str) -> Iterator[int]:
        """Yield the end of each occurrence in the text, in any case."""
        return (end for _, end in self.spans(text))

    def spans(self, text: str) -> Iterator[Span]:
        """Yield each occurrence in the text, in any case."""
        for phrase in self.present(text):
            for end in self.ends_of(phrase, lowered(text)):
                yield end - len(phrase), end

    def ends_of(self, phrase: str, lower: str) -> Iterator[int]:
        """Yield the end of each occurrence of this phrase in a text in lower case."""
        edges = phrase in self._edged
        place = lower.find(phrase)
        while place >= 0:
            end = place + len(phrase)
            if not edges or _apart(lower, place, end):
                yield end
            place = lower.find(phrase, end)


def windows(places: Iterable[tuple[int, int]], around: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield merged spans of a text of `size` that contain all places with `around` characters of
    context.
    """
    begin, stop = 0, 0
    for start, end in places:
        if start - around > stop:
            if stop:
                yield begin, stop
            begin = start - around
        stop = min(size, end + around)
    if stop:
        yield begin, stop


def _folded(words: str) -> str:
    """Fold the words as the detectors' input is folded, or words with such letters would never
    match.
    """
    return words.translate(str.maketrans(folds(words)))


def _has_edges(word: str) -> bool:
    return all(ord(letter) < 0x0590 or ord(letter) in range(0x1E00, 0x2000) for letter in word)


def _apart(lower: str, start: int, end: int) -> bool:
    before = lower[start - 1] if start else " "
    behind = lower[end] if end < len(lower) else " "
    return not before.isalpha() and not behind.isalpha()
