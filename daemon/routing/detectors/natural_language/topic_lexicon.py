"""Lexicon of topic words in one language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from ...text_analysis.data_files import read_sections
from ..finding import PERSONAL_TOPICS, FindingKind
from .gazetteer import fold
from .word_table import WordTableColumn

_STEM = 4


class LexiconMatch(msgspec.Struct, frozen=True, gc=False):
    """A topic word or phrase: `length` words from the word at index `at`."""

    at: int
    length: int
    topic: str
    weight: int


class Lexicon:
    """Looks up single words, prefixes and phrases.

    The file has sections `[topic]` of lines `WEIGHT word word* a_phrase …`; those of the sections
    `event`, `general` and `study` have no weight. Entries with less than the `least` weight are
    left out.
    """

    def __init__(self, sections: Mapping[str, Sequence[str]], least: int) -> None:
        self._words: dict[str, list[tuple[str, int]]] = {}
        self._stems: dict[str, list[tuple[str, str, int]]] = {}
        self._phrases: dict[str, list[tuple[tuple[str, ...], str, int]]] = {}
        for topic, lines in sections.items():
            for line in lines:
                self._add_line(topic, line.split(), least)
        self._seconds = {first: _seconds(found) for first, found in self._phrases.items()}
        self._found: list[_Entry] = [((), None)]
        self._known: dict[_Entry, int] = {self._found[0]: 0}
        self.entries = WordTableColumn(np.intp, partial(map, self._entry))
        """The number of each word's entry; 0 for none."""

    @classmethod
    def shipped(cls, language: str, least: int) -> Lexicon:
        """Return the shipped lexicon of this language."""
        return cls(read_sections(f"topics.{language}.txt"), least)

    def _add_line(self, topic: str, entries: list[str], least: int) -> None:
        weight = int(entries.pop(0)) if topic in TOPICS else 1
        if weight < least:
            return
        for entry in map(fold, entries):
            first, *rest = entry.split("_")
            if rest:
                self._phrases.setdefault(first, []).append((tuple(rest), topic, weight))
            elif entry.endswith("*") and len(entry) > _STEM:
                stem = entry.removesuffix("*")
                self._stems.setdefault(stem[:_STEM], []).append((stem, topic, weight))
            else:
                self._words.setdefault(entry.removesuffix("*"), []).append((topic, weight))
                if entry.endswith("*"):  # too short for a stem: only its plural
                    self._words.setdefault(f"{entry[:-1]}s", []).append((topic, weight))

    def hits(self, words: Sequence[str], entries: Sequence[int]) -> list[LexiconMatch]:
        """Return all matches of folded words with these entries; phrases before their words."""
        found: list[LexiconMatch] = []
        for at in [at for at, entry in enumerate(entries) if entry]:
            alone, phrases = self._found[entries[at]]
            if phrases is not None and at + 1 < len(words):
                exact, begins = self._seconds[phrases]
                if words[at + 1] in exact or words[at + 1].startswith(begins):
                    for rest, topic, weight in self._phrases[phrases]:
                        if _follows(words, at, rest):
                            found.append(LexiconMatch(at, len(rest) + 1, topic, weight))
            for topic, weight in alone:
                found.append(LexiconMatch(at, 1, topic, weight))
        return found

    def _entry(self, word: str) -> int:
        """Return the number of the word's entry: a few hundred entries cover all words."""
        stems = self._stems.get(word[:_STEM], ())
        alone = (
            *self._words.get(word, ()),
            *((topic, weight) for stem, topic, weight in stems if word.startswith(stem)),
        )
        entry = alone, word if word in self._phrases else None
        number = self._known.setdefault(entry, len(self._found))
        if number == len(self._found):
            self._found.append(entry)
        return number


_Entry = tuple[tuple[tuple[str, int], ...], str | None]
"""Topics and weights of a single word, and the word itself if phrases begin with it."""

TOPICS = {kind.value: kind for kind in FindingKind if kind in PERSONAL_TOPICS}


def _seconds(
    phrases: list[tuple[tuple[str, ...], str, int]],
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the second words of the phrases, and the prefixes of others."""
    exact: set[str] = set()
    begins: set[str] = set()
    for (second, *more), _, _ in phrases:
        if second.endswith("*") and not more:
            begins.add(second[:-1])
        else:
            exact.add(second)
    return frozenset(exact), tuple(begins)


def _follows(words: Sequence[str], at: int, rest: tuple[str, ...]) -> bool:
    """Whether these words come next; the last may end in `*`."""
    if at + len(rest) >= len(words):
        return False
    *middle, last = rest
    if any(words[at + 1 + step] != piece for step, piece in enumerate(middle)):
        return False
    end = words[at + len(rest)]
    return end.startswith(last[:-1]) if last.endswith("*") else end == last
