"""Persons: by how they are introduced, addressed or signed, and by given names with surnames."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..finding import Finding, Kind
from .gazetteer import FIRST, LAST, PLACE, WORD, fold
from .introductions import introduction
from .setting import Setting
from .shipped import shipped
from .words import Word, word_set

_BIOGRAPHY = word_set(
    "biography famous wikipedia nobel president philosopher composer painter inventor actor "
    "actress theorem novel philosoph philosophe filósofo biographie biografie biografía"
)
_WHO = re.compile(
    r"who (?:is|was|were)\b|wer (?:ist|war)\b|qui (?:est|était)\b|quién (?:es|fue|era)\b|"
    r"(?:author of|written|novel|song|directed|quotes?) by",
    re.IGNORECASE,
)
_NOBODY = word_set(
    "sir madam sirs team all everyone everybody folks hiring manager recruiter there world "
    "chatgpt claude assistant gpt bard siri alexa copilot gemini ai friend friends customer "
    "customers colleagues reader students diary santa god lord damen herren herr frau madame "
    "monsieur tous todos equipo mundo welt leute zusammen editor committee parents support"
)
_PARTICLES = word_set("van von de der den del da di la le bin ibn al el zu dos du")
_INITIALS = re.compile(r"[A-Z]$")
_ENOUGH = 3


class PeopleFinder:
    """Finds persons that are not public figures."""

    def __init__(self, public: frozenset[str]) -> None:
        self._public = public
        self._surnames = frozenset(name.rsplit(" ", 1)[-1] for name in public)

    @classmethod
    def shipped(cls) -> PeopleFinder:
        """With the public figures that come with ingle, real and invented."""
        lines = shipped("public_figures.txt").decode().splitlines()
        return cls(frozenset(fold(line) for line in lines if line and not line.startswith("#")))

    def find(
        self, text: str, words: Sequence[Word], flags: Mapping[int, int], setting: Setting
    ) -> Iterator[Finding]:
        """Each person with the surest sign of them; `flags` are of the capitalised words."""
        if setting.made_up:
            return
        found: dict[tuple[int, int], float] = {}
        for index in flags:
            certainty, alone = introduction(text, words, index)
            end = self._named(text, words, index, flags, alone) if certainty else None
            if end is not None:
                found[words[index].start, end] = certainty
        biography = setting.own == 0 and (
            _WHO.search(text[:500]) is not None
            or any(word.text.casefold() in _BIOGRAPHY for word in words[:100])
        )
        if not biography:
            for span in self._sequences(text, words, flags):
                found[span] = max(found.get(span, 0), 0.7)
            if setting.own:
                for index in _given_names(words, flags):
                    whole = fold(" ".join(word.text for word in words[index : index + 2]))
                    if whole not in self._public:
                        found.setdefault((words[index].start, words[index].end), 0.5)
        taken = 0
        for (start, end), certainty in sorted(
            found.items(), key=lambda one: (one[0][0], -one[0][1])
        ):
            if start >= taken and not self._is_public(text[start:end]):
                taken = end
                yield Finding(
                    kind=Kind.PERSON,
                    start=start,
                    end=end,
                    value=" ".join(text[start:end].split()),
                    detector="names",
                    certainty=certainty,
                )

    def _named(
        self, text: str, words: Sequence[Word], index: int, flags: Mapping[int, int], alone: bool
    ) -> int | None:
        """Where the name that something introduces ends; None if it is no name."""
        end, strength = None, 0
        first = index
        while index < min(len(words), first + 5):
            word = words[index].text
            if index > first and text[words[index - 1].end : words[index].start] not in (" ", ". "):
                break
            if word[0].isupper():
                flag = flags[index]
                if word.casefold() in _NOBODY or _is_plain(flag, alone):
                    break
                end = words[index].end
                strength += 2 if flag & (FIRST | LAST) else 1
            elif word not in _PARTICLES:
                break
            index += 1
        return end if alone or strength >= 2 else None

    def _sequences(
        self, text: str, words: Sequence[Word], flags: Mapping[int, int]
    ) -> Iterator[tuple[int, int]]:
        """Given name and surname next to one another, with initials and particles between."""
        order = sorted(flags)
        for index in order:
            after = _next_name(text, words, index)
            if after is None or after not in flags:
                continue
            first, last = words[index], words[after]
            if (
                min(len(first.text), len(last.text)) < 2
                or first.text.isupper() != last.text.isupper()
            ):
                continue
            straight = _strength(flags[index], FIRST) + _strength(flags[after], LAST)
            turned = _strength(flags[index], LAST) + _strength(flags[after], FIRST)
            if max(straight, turned - 1) >= _ENOUGH and "\n" not in text[first.start : last.end]:
                yield first.start, last.end

    def _is_public(self, name: str) -> bool:
        """Whether everybody knows the name: a whole one, or a surname alone."""
        folded = fold(" ".join(name.replace(".", "").split()))
        words = folded.split()
        return (
            (len(words) == 1 and folded in self._surnames)
            or folded in self._public
            or " ".join(words[-2:]) in self._public
        )


def _is_plain(flag: int, alone: bool) -> bool:
    """An ordinary word, which is part of a name only where it is a name too."""
    names = FIRST | (LAST if alone else 0)
    return bool(flag & WORD) and not flag & names


def _strength(flag: int, wanted: int) -> int:
    if flag & PLACE and not flag & wanted:
        return -1
    if flag & wanted:
        return 1 if flag & WORD else 2
    return 0 if flag & WORD else 1


def _next_name(text: str, words: Sequence[Word], index: int) -> int | None:
    """The word that may be the surname after this one: the next but initials and particles."""
    after = index + 1
    while after < len(words) and after <= index + 3:
        between = text[words[after - 1].end : words[after].start]
        if between not in (" ", ". "):
            return None
        word = words[after].text
        if between == ". " and not _INITIALS.match(words[after - 1].text):
            return None
        if word[0].isupper() and len(word) > 1:
            return after
        if word not in _PARTICLES and not _INITIALS.match(word):
            return None
        after += 1
    return None


def _given_names(words: Sequence[Word], flags: Mapping[int, int]) -> Iterator[int]:
    """The numbers of given names that are nothing else, alone."""
    others = WORD | PLACE
    for index, flag in flags.items():
        word = words[index]
        if flag & FIRST and not flag & others and len(word.text) > 2 and not word.text.isupper():
            yield index
