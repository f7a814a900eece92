"""Detects persons: by introduction, address or signature, and by given name with surname."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from ...text_analysis.data_files import read_data_file
from ..finding import FindingKind, SensitiveFinding
from .annotated_text import AnnotatedText
from .gazetteer import FIRST, LAST, PLACE, WORD, fold
from .person_introductions import INTRODUCING, introduction
from .word_table import word_set

_BIOGRAPHY = word_set("biographies")
_WHO = re.compile(
    r"who (?:is|was|were)\b|wer (?:ist|war)\b|qui (?:est|était)\b|quién (?:es|fue|era)\b|"
    r"(?:author of|written|novel|song|directed|quotes?) by",
    re.IGNORECASE,
)
_NOBODY = word_set("no names")
_PARTICLES = word_set("particles of names")
_INITIALS = re.compile(r"[A-Z]$")
_ENOUGH = 3


@functools.cache
def _public_figures() -> frozenset[str]:
    """Return the folded names of public figures, real and fictional."""
    lines = read_data_file("public_figures.txt").decode().splitlines()
    return frozenset(fold(line) for line in lines if line and not line.startswith("#"))


@functools.cache
def _public_surnames() -> frozenset[str]:
    return frozenset(name.rsplit(" ", 1)[-1] for name in _public_figures())


def find_people(reading: AnnotatedText) -> Iterator[SensitiveFinding]:
    """Yield each person with the highest certainty, except for public figures."""
    text, setting = reading.text, reading.setting
    if setting.made_up:
        return
    found: dict[tuple[int, int], float] = {}
    small = reading.small
    for index in [at for at in reading.flags if at and small[at - 1] in INTRODUCING]:
        certainty, alone = introduction(reading, index)
        end = _named(reading, index, alone) if certainty else None
        if end is not None:
            found[reading.starts[index], end] = certainty
    biography = setting.own == 0 and (
        _WHO.search(text[:500]) is not None or not _BIOGRAPHY.isdisjoint(reading.small[:100])
    )
    if not biography:
        for span in _sequences(reading):
            found[span] = max(found.get(span, 0), 0.7)
        for index in _given_names(reading) if setting.own else ():
            if fold(" ".join(reading.words[index : index + 2])) not in _public_figures():
                found.setdefault((reading.starts[index], reading.ends[index]), 0.5)
    taken = 0
    for (start, end), certainty in sorted(found.items(), key=lambda one: (one[0][0], -one[0][1])):
        if start >= taken and not _is_public(text[start:end]):
            taken = end
            value = " ".join(text[start:end].split())
            yield SensitiveFinding(FindingKind.PERSON, start, end, value, certainty)


def _is_public(name: str) -> bool:
    """Whether the name is widely known: a full name, or a surname alone."""
    folded = fold(" ".join(name.replace(".", "").split()))
    words = folded.split()
    if len(words) == 1 and folded in _public_surnames():
        return True
    return not _public_figures().isdisjoint((folded, " ".join(words[-2:])))


def _named(reading: AnnotatedText, index: int, alone: bool) -> int | None:
    """Return the end of the name that an introduction starts; None if it is not a name."""
    end, strength = None, 0
    first = index
    while index < min(len(reading.words), first + 5):
        word = reading.words[index]
        if index > first and _gap(reading, index) not in (" ", ". "):
            break
        if word[0].isupper():
            flag = reading.flags[index]
            if word.casefold() in _NOBODY or _is_plain(flag, alone):
                break
            end = reading.ends[index]
            strength += 2 if flag & (FIRST | LAST) else 1
        elif word not in _PARTICLES:
            break
        index += 1
    return end if alone or strength >= 2 else None


def _gap(reading: AnnotatedText, index: int) -> str:
    """Return the text between the word and the previous one."""
    return reading.text[reading.ends[index - 1] : reading.starts[index]]


def _sequences(reading: AnnotatedText) -> Iterator[tuple[int, int]]:
    """Yield given names followed by surnames, with initials and particles between."""
    words, flags = reading.words, reading.flags
    followed = [
        at for at in flags if at + 1 in flags or not _PARTICLES.isdisjoint(words[at + 1 : at + 2])
    ]
    for index in followed:
        after = _next_name(reading, index)
        if after is None:
            continue
        first, last = words[index], words[after]
        if min(len(first), len(last)) < 2 or first.isupper() != last.isupper():
            continue
        straight = _strength(flags[index], FIRST) + _strength(flags[after], LAST)
        turned = _strength(flags[index], LAST) + _strength(flags[after], FIRST)
        start, end = reading.starts[index], reading.ends[after]
        if max(straight, turned - 1) >= _ENOUGH and "\n" not in reading.text[start:end]:
            yield start, end


def _is_plain(flag: int, alone: bool) -> bool:
    """Whether it is an ordinary word, which is part of a name only if it is a name too."""
    names = FIRST | (LAST if alone else 0)
    return bool(flag & WORD) and not flag & names


def _strength(flag: int, wanted: int) -> int:
    if flag & PLACE and not flag & wanted:
        return -1
    if flag & wanted:
        return 1 if flag & WORD else 2
    return 0 if flag & WORD else 1


def _next_name(reading: AnnotatedText, index: int) -> int | None:
    """Return the word that may be the surname after this one, skipping initials and particles."""
    words = reading.words
    for after in range(index + 1, min(len(words), index + 4)):
        word = words[after]
        if after not in reading.flags and word not in _PARTICLES:
            return None
        between = _gap(reading, after)
        if between != " " and (between != ". " or not _INITIALS.match(words[after - 1])):
            return None
        if word[0].isupper() and len(word) > 1:
            return after
        if word not in _PARTICLES and not _INITIALS.match(word):
            return None
    return None


def _given_names(reading: AnnotatedText) -> Iterator[int]:
    """Yield the indexes of standalone given names that have no other meaning."""
    others = WORD | PLACE
    for index, flag in reading.flags.items():
        word = reading.words[index]
        if flag & FIRST and not flag & others and len(word) > 2 and not word.isupper():
            yield index
