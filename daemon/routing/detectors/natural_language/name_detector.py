"""Detects names: people, streets, places and organisations."""

from __future__ import annotations

from collections.abc import Iterator

from ..finding import FindingKind, SensitiveFinding
from .annotated_text import AnnotatedText, TextAnnotator
from .gazetteer import PLACE, fold, shipped_gazetteer
from .organisations import find_organisations, find_strangers
from .person_names import find_people
from .street_addresses import find_addresses

_LONGEST_PLACE = 3


class NameDetector:
    """Finds people, street addresses, places and organisations; loads its tables on first use.

    Characters of a story or a word problem are not reported, nor are public figures.
    """

    def __init__(self, reader: TextAnnotator) -> None:
        self._reader = reader

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """Yield persons, then addresses, organisations and places, each in the text's order."""
        reading = self._reader.read(text)
        if not reading.setting.code:
            yield from find_people(reading)
        yield from find_addresses(reading)
        if reading.setting.own or not reading.setting.exercise:
            yield from find_organisations(reading)
            if not reading.setting.code and reading.language == "en":
                yield from find_strangers(reading)
        if not reading.setting.made_up:
            yield from _find_places(reading)


def _find_places(reading: AnnotatedText) -> Iterator[SensitiveFinding]:
    """Yield capitalised places that have no other meaning, longest first."""
    text, flags, words = reading.text, reading.flags, reading.words
    starts, ends = reading.starts, reading.ends
    phrases = [
        (index, length)
        for index in flags
        for length in range(_LONGEST_PLACE, 1, -1)
        if index + length - 1 in flags
    ]
    names = [
        fold(" ".join(text[starts[at] : ends[at + length - 1]].split())) for at, length in phrases
    ]
    known = shipped_gazetteer().flags(names)
    spans = [span for span, found in zip(phrases, known, strict=True) if found & PLACE]
    spans += [(at, 1) for at, found in flags.items() if found == PLACE and len(words[at]) > 2]
    taken = -1
    for at, length in sorted(spans, key=lambda span: (span[0], -span[1])):
        if at <= taken:
            continue
        taken = at + length - 1
        start, end = starts[at], ends[taken]
        yield SensitiveFinding(FindingKind.PLACE, start, end, text[start:end], 0.6)
