"""The words and signs of a text with their places."""

from __future__ import annotations

import re
from typing import NamedTuple

_LETTERS = r"[^\W\d_]+(?:['’-](?!s\b)[^\W\d_]+)*"
_TOKEN = re.compile(rf"{_LETTERS}|\d[\d.,]*|\n+|[^\w\s]")


class Word(NamedTuple):
    """A run of letters from character `start` up to `end`.

    Hyphens and apostrophes stay inside, but for a possessive s.
    """

    text: str
    start: int
    end: int


def tokens_of(text: str) -> list[Word]:
    """Every word, number, sign and end of lines of the text, in its order."""
    # Through `_make`: the constructor of a NamedTuple would take half of the time.
    found = ((match[0], match.start(), match.end()) for match in _TOKEN.finditer(text))
    return list(map(Word._make, found))


def word_set(words: str) -> frozenset[str]:
    """The words between spaces."""
    return frozenset(words.split())


def phrase_set(phrases: str) -> frozenset[str]:
    """The phrases between semicolons."""
    return frozenset(phrases.split(";"))
