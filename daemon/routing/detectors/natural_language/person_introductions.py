"""Phrases that introduce persons: title, relation, greeting, signature or label."""

from __future__ import annotations

from .annotated_text import AnnotatedText
from .word_table import word_set

_TITLES = word_set("titles")
_POSSESSIVES = word_set("possessives")
RELATIONS = word_set("relations")
_GREETINGS = word_set("greetings")
_CLOSINGS = word_set("closings")
_LABELS = word_set("labels of persons")
_SELF = word_set("own introductions")
# These are as often followed by something else: a profession, a nationality.
_SELF_PERHAPS = word_set("possible own introductions")
_CALLED = word_set("called")
_GAPS = frozenset({" ", ". ", ", ", ": ", ":", " (", ",\n", "\n"})


INTRODUCING = frozenset[str]().union(
    *(_TITLES, RELATIONS, _CALLED, _GREETINGS, _CLOSINGS, _LABELS),
    (words.split()[-1] for words in _SELF | _SELF_PERHAPS),
)


def introduction(reading: AnnotatedText, index: int) -> tuple[float, bool]:
    """Return how certainly the preceding words make it a person, and whether any word would do.

    0 if nothing does, as when the word before is not in `INTRODUCING`. The word at `index`, which
    is not the first of the text, is the first of the name.
    """
    last = reading.small[index - 1]
    before = reading.small[max(0, index - 3) : index]
    gap = reading.text[reading.ends[index - 1] : reading.starts[index]]
    if gap in (" ", ". ", "."):
        if last in _TITLES:
            return 0.8, True
        if " ".join(before[-2:]) in _SELF or last in _SELF:
            return 0.9, False
        if " ".join(before[-2:]) in _SELF_PERHAPS or last in _SELF_PERHAPS:
            return 0.8, False
    if gap in _GAPS and "\n" not in gap:
        related = before[:-1] if last in RELATIONS or last in _CALLED else []
        if last in _CALLED and not any(word in RELATIONS for word in related):
            related = []
        if any(word in _POSSESSIVES for word in related):
            return 0.9, True
    return _of_letters(reading, index, last, gap)


def _of_letters(reading: AnnotatedText, index: int, last: str, gap: str) -> tuple[float, bool]:
    """Return the same for greetings and signatures of letters, and labels of forms."""
    if gap == " " and last in _GREETINGS and _ends(reading, index):
        return 0.75, True
    if "\n" in gap and not gap.strip(" ,.!\n\r-") and last in _CLOSINGS:
        return 0.8, True
    if gap.startswith(":") and not gap.strip(": \t") and last in _LABELS:
        return 0.8, False
    return 0.0, False


def _ends(reading: AnnotatedText, index: int) -> bool:
    """Whether the greeting ends after at most three capitalised words."""
    words = reading.words
    at = index
    while at < len(words) and at < index + 3:
        end = reading.ends[at]
        rest = reading.text[end : end + 2]
        if not rest.strip(" ") or rest[0] in ",!:.;-\n\r":
            return True
        if rest[0] != " ":
            return False
        at += 1
        if at < len(words) and not words[at][0].isupper():
            return False
    return False
