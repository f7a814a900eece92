"""What is known of a word by itself, worked out once for all texts that it comes up in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .gazetteer import fold

Known = TypeVar("Known", bound=np.generic)
Fill = Callable[[Sequence[str], Sequence[str], Sequence[str]], Iterable[Any]]

NUMBER = "<number>"
"""Stands for every token that begins with a digit: what people's numbers are is not remembered."""


class WordTableColumn(Generic[Known]):
    """Something that is known of every word: `fill` says it for new words, in their order.

    It gets the words as they are written, in small letters, and those without accents too.
    """

    def __init__(self, dtype: type[Known], fill: Fill) -> None:
        self.dtype, self.fill = dtype, fill


def members(words: frozenset[str], *, folded: bool = False) -> WordTableColumn[np.bool_]:
    """Whether a word is one of these, which are in small letters."""

    def fill(_: Sequence[str], small: Sequence[str], plain: Sequence[str]) -> Iterable[bool]:
        return map(words.__contains__, plain if folded else small)

    return WordTableColumn(np.bool_, fill)


def matching(holds: Callable[[str], bool]) -> WordTableColumn[np.bool_]:
    """Whether this holds for the word as it is written."""

    def fill(words: Sequence[str], _: Sequence[str], __: Sequence[str]) -> Iterable[bool]:
        return map(holds, words)

    return WordTableColumn(np.bool_, fill)


class WordTable:
    """Gives tokens numbers, by which `column` tells what is known of them.

    Numbers stay valid for the life of the table. Safe to use from several threads.
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
        """The number of each token; 0 for all that begin with a digit."""
        found = map(self._numbers.get, tokens, repeat(-1))
        numbers = np.fromiter(found, np.intp, len(tokens))
        missing = np.flatnonzero(numbers < 0).tolist()
        if missing:
            new = {tokens[at] for at in missing}
            self._add(sorted(word for word in new if not word[0].isdigit()))  # tells no order
            numbers[missing] = [self._numbers.get(tokens[at], 0) for at in missing]
        return numbers

    def column(self, column: WordTableColumn[Known]) -> NDArray[Known]:
        """What is known of each word, by its number."""
        known = cast("NDArray[Known] | None", self._columns.get(column))
        if known is None or len(known) < len(self.words):
            with self._lock:
                known = self._columns.get(column, np.zeros(0, column.dtype))
                start, end = len(known), len(self.words)
                values = column.fill(
                    self.words[start:end], self.small[start:end], self.folded[start:end]
                )
                more = np.fromiter(values, column.dtype, end - start)
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
