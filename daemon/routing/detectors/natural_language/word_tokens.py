"""The words and signs of a text with their places."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_LETTERS = r"[^\W\d_]+(?:['’-](?!s\b)[^\W\d_]+)*"
_TOKEN = re.compile(rf"({_LETTERS}|\d[\d.,]*|\n+|[^\w\s])")


def tokens_of(text: str) -> tuple[list[str], NDArray[np.intp], NDArray[np.intp]]:
    """Every word, number, sign and end of lines of the text, in its order: where each begins, ends.

    Words are runs of letters; hyphens and apostrophes stay inside, but for a possessive s.
    """
    # Gaps and tokens in turn, whose places are sums of lengths: no object for each match is made.
    pieces: list[str] = _TOKEN.split(text)
    edges = np.cumsum(np.fromiter(map(len, pieces), np.intp, len(pieces)))
    return pieces[1::2], edges[0:-1:2], edges[1::2]


def word_set(words: str) -> frozenset[str]:
    """The words between spaces."""
    return frozenset(words.split())


def phrase_set(phrases: str) -> frozenset[str]:
    """The phrases between semicolons."""
    return frozenset(phrases.split(";"))
