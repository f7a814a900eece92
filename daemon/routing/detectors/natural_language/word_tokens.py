"""Splits a text into words and signs, with positions."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ...text_analysis.data_files import word_lists

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
