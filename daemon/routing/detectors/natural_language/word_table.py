"""Word properties, computed once for all texts in which a word occurs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ...text_analysis.data_files import word_lists
from .gazetteer import fold

_LETTERS = r"[^\W\d_]+(?:['’-](?!s\b)[^\W\d_]+)*"
_TOKEN = re.compile(rf"({_LETTERS}|\d[\d.,]*|\n+|[^\w\s])")


def tokens_of(text: str) -> tuple[list[str], NDArray[np.intp], NDArray[np.intp]]:
    """Return the tokens (words, numbers, signs, line ends) in order, with their starts and ends.

    Words are runs of letters; hyphens and apostrophes stay inside, except for a possessive s.
    """
    # Gaps and tokens alternate, and positions are sums of lengths: no match objects are created.
    pieces: list[str] = _TOKEN.split(text)
    edges = np.cumsum(np.fromiter(map(len, pieces), np.intp, len(pieces)))
    return pieces[1::2], edges[0:-1:2], edges[1::2]


def word_set(name: str) -> frozenset[str]:
    """Return the words of this list in `words.txt`."""
    return frozenset(word_lists()[name])


Known = TypeVar("Known", bound=np.generic)
Fill = Callable[[Sequence[str]], Iterable[Any]]
WordForm = Literal["words", "small", "folded"]
"""A word as written, in lower case, or without accents too."""

NUMBER = "<number>"
"""Stands for every token that begins with a digit, so that no personal numbers are kept in
memory.
"""


class WordTableColumn(Generic[Known]):
    """A property of every word: `fill` computes it for new words in this form, in their order."""

    def __init__(self, dtype: type[Known], fill: Fill, form: WordForm = "folded") -> None:
        self.dtype, self.fill, self.form = dtype, fill, form


def members(words: frozenset[str], *, folded: bool = False) -> WordTableColumn[np.bool_]:
    """Return the property of being one of these words, which are in lower case."""
    form = "folded" if folded else "small"
    return WordTableColumn(np.bool_, partial(map, words.__contains__), form)


def matching(holds: Callable[[str], bool]) -> WordTableColumn[np.bool_]:
    """Return the property that `holds` is true for the word as written."""
    return WordTableColumn(np.bool_, partial(map, holds), "words")


class WordTable:
    """Numbers tokens; `column` returns their properties by number.

    Numbers stay valid for the life of the table. Thread-safe.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.small: list[str] = []
        self.folded: list[str] = []
        self._numbers: dict[str, int] = {}
        self._columns: dict[WordTableColumn[Any], NDArray[Any]] = {}
        self._lock = threading.Lock()
        self._add([NUMBER])

    def __len__(self) -> int:
        return len(self.words)

    def number(self, tokens: Sequence[str]) -> NDArray[np.intp]:
        """Return the number of each token; 0 for all that begin with a digit."""
        found = map(self._numbers.get, tokens, repeat(-1))
        numbers = np.fromiter(found, np.intp, len(tokens))
        missing = np.flatnonzero(numbers < 0).tolist()
        if missing:
            new = {tokens[at] for at in missing}
            self._add(sorted(word for word in new if not word[0].isdigit()))  # in arbitrary order
            numbers[missing] = [self._numbers.get(tokens[at], 0) for at in missing]
        return numbers

    def column(self, column: WordTableColumn[Known]) -> NDArray[Known]:
        """Return the property of each word, by its number."""
        known = cast("NDArray[Known] | None", self._columns.get(column))
        if known is None or len(known) < len(self.words):
            with self._lock:
                known = self._columns.get(column, np.zeros(0, column.dtype))
                start, end = len(known), len(self.words)
                new: list[str] = getattr(self, column.form)[start:end]
                more = np.fromiter(column.fill(new), column.dtype, end - start)
                known = self._columns[column] = np.concatenate([known, more])
        return known

    def _add(self, new: Sequence[str]) -> None:
        with self._lock:
            for word in new:
                if word not in self._numbers:
                    letters = word[0].isalpha()
                    small = word.casefold().replace("’", "'") if letters else word
                    self.small.append(small)
                    self.folded.append(small if small.isascii() or not letters else fold(small))
                    self.words.append(word)
                    self._numbers[word] = len(self.words) - 1
