"""The words by which topics are known, in one language."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..finding import Kind
from .gazetteer import fold
from .shipped import shipped

_STEM = 4


class Hit(msgspec.Struct, frozen=True):
    """A word or phrase of a topic: `length` words from the word with the number `at` on."""

    at: int
    length: int
    topic: str
    weight: int


class Lexicon:
    """Looks words up by themselves, by their beginnings and as parts of phrases.

    The file has sections `[topic]` of lines `WEIGHT word word* a_phrase …`; those of the sections
    `event`, `general` and `study` have no weight.
    """

    def __init__(self, source: str) -> None:
        self._words: dict[str, list[tuple[str, int]]] = {}
        self._stems: dict[str, list[tuple[str, str, int]]] = {}
        self._phrases: dict[str, list[tuple[tuple[str, ...], str, int]]] = {}
        topic = ""
        for line in source.splitlines():
            if line.startswith("["):
                topic = line.strip("[]")
            elif line and not line.startswith("#"):
                self._add_line(topic, line.split())
        self._first = self._words.keys() | self._phrases.keys()

    @classmethod
    def shipped(cls, language: str) -> Lexicon:
        """The one that comes with ingle for this language."""
        return cls(shipped(f"topics.{language}.txt").decode())

    def _add_line(self, topic: str, entries: list[str]) -> None:
        weight = int(entries.pop(0)) if topic in TOPICS else 1
        for entry in map(fold, entries):
            first, *rest = entry.split("_")
            if rest:
                self._phrases.setdefault(first, []).append((tuple(rest), topic, weight))
            elif entry.endswith("*") and len(entry) > _STEM:
                stem = entry.removesuffix("*")
                self._stems.setdefault(stem[:_STEM], []).append((stem, topic, weight))
            else:
                self._words.setdefault(entry.removesuffix("*"), []).append((topic, weight))
                if entry.endswith("*"):  # too short for a stem: its plural only
                    self._words.setdefault(f"{entry[:-1]}s", []).append((topic, weight))

    def hits(self, words: Sequence[str]) -> list[Hit]:
        """Everything that the folded words match, in their order; phrases before their words."""
        found: list[Hit] = []
        for at, word in enumerate(words):
            stems = self._stems.get(word[:_STEM])
            if stems is None and word not in self._first:
                continue
            for rest, topic, weight in self._phrases.get(word, ()):
                if _follows(words, at, rest):
                    found.append(Hit(at, len(rest) + 1, topic, weight))
            for topic, weight in self._words.get(word, ()):
                found.append(Hit(at, 1, topic, weight))
            for stem, topic, weight in stems or ():
                if word.startswith(stem):
                    found.append(Hit(at, 1, topic, weight))
        return found


TOPICS = {
    kind.value: kind
    for kind in (
        Kind.HEALTH,
        Kind.MONEY,
        Kind.LAW,
        Kind.FAMILY,
        Kind.WORK,
        Kind.IMMIGRATION,
        Kind.SEXUALITY,
        Kind.RELIGION,
    )
}


def _follows(words: Sequence[str], at: int, rest: tuple[str, ...]) -> bool:
    """Whether these come next; the last may end in `*`."""
    if at + len(rest) >= len(words):
        return False
    *middle, last = rest
    if any(words[at + 1 + step] != piece for step, piece in enumerate(middle)):
        return False
    end = words[at + len(rest)]
    return end.startswith(last[:-1]) if last.endswith("*") else end == last
