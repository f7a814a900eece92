"""Classifies a text's genre: an exercise, fiction, or an account of a person's own life."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from .word_table import WordTableColumn, members, word_set

_HEAD = 100
_EXERCISE = 1500

# First person beyond the "I want" of any request: possessions and states.
_OWN = members(word_set("genre: own"))
_OWN_PAIRS = word_set("genre: own pairs")
_SUBJECTS = members(frozenset(pair.split()[0] for pair in _OWN_PAIRS))
_FICTION = members(word_set("genre: fiction"))
_ASKED_SUM = re.compile(
    r"how (?:many|much|long|far|old|fast|tall)|what (?:is|was|percent|fraction)|calculate|find the|"
    r"wie ?viele?|wie (?:lange|alt|weit)|berechne|combien|calcule|cu[áa]nt[oa]s?|quel (?:est|âge)"
)
_NUMBER = re.compile(r"\d+|\b(?:twice|half|double|third|dozen|two|three|four|five|six|ten)\b")
_CODE = re.compile(
    r"```|^\s*(?:def |class |import |from \w+ import|#include|public (?:class|static)|func |fn |"
    r"const |let |var |SELECT |INSERT |<\?php|<html|\$ )|[{};]\s*$|\w+\(\w*\)\s*[:{;]",
    re.MULTILINE,
)
# First characters of lines that match `_CODE`.
_CODE_LINES = (
    *("def ", "class ", "import ", "from ", "#include", "public ", "func ", "fn ", "const "),
    *("let ", "var ", "SELECT ", "INSERT ", "<?php", "<html", "$ "),
)
# Last characters of all other matches, except for triple quotes.
_CODE_END = re.compile(r"[{};]\s*$|\)\s*[:{;]", re.MULTILINE)
_ENOUGH_CODE = 3


class TextGenre(msgspec.Struct, frozen=True):
    """The genre of a text.

    `own` counts first-person markers. `fiction` and `exercise`: the people in it are probably
    invented; `code`: it is mostly a program.
    """

    own: int
    fiction: bool
    exercise: bool
    code: bool

    @property
    def made_up(self) -> bool:
        """Whether its people are those of a story or of a word problem."""
        return self.own == 0 and (self.fiction or self.exercise)


def classify_genre(
    text: str, words: Sequence[str], where: Callable[[WordTableColumn[np.bool_]], list[int]]
) -> TextGenre:
    """Return the genre of the text with these words, in lower case; `where` finds words'
    positions.
    """
    own = len(where(_OWN))
    own += sum(" ".join(words[at : at + 2]) in _OWN_PAIRS for at in where(_SUBJECTS))
    numbers = len(_NUMBER.findall(text)) if len(text) < _EXERCISE else 0
    exercise = numbers >= 2 and _ASKED_SUM.search(text.casefold()) is not None
    return TextGenre(
        own=own,
        fiction=any(at < _HEAD for at in where(_FICTION)[:1]),
        exercise=exercise,
        code=_is_code(text[:4000]),
    )


def _is_code(text: str) -> bool:
    """Whether three or more places look like a program."""
    lines = sum(line.lstrip().startswith(_CODE_LINES) for line in text.split("\n"))
    # An upper limit of possible matches, since the pattern is slow.
    most = lines + text.count("```") + len(_CODE_END.findall(text))
    return most >= _ENOUGH_CODE and len(_CODE.findall(text)) >= _ENOUGH_CODE
