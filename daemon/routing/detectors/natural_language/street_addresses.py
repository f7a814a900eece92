"""Detects street addresses and postcodes in the formats of many countries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.data_files import word_lists
from ..context_words import windows
from ..finding import FindingKind, SensitiveFinding
from .annotated_text import AnnotatedText
from .word_table import matching, members, word_set

# Every repetition is bounded, so that matching takes time linear in the length of the text.
_ENGLISH = re.compile(
    r"(?<![\w.])\d{1,5}[A-Za-z]?(?:[-/]\d{1,4})? (?:[NSEW]\.? |North |South |East |West )?"
    r"(?:[A-Z0-9][\w'’.-]{0,24} ){1,4}"
    r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Place|Pl|Way|"
    r"Terrace|Square|Close|Crescent|Gardens|Grove|Hill|Mews|Parkway|Pkwy|Highway|Hwy|Circle|Cir|"
    r"Trail|Row|Walk|Quay|Parade|Estate|Nagar|Marg)\b\.?"
)
_ENGLISH_SMALL = re.compile(
    r"\b\d{1,5} (?!way\b|one\b|main\b)[a-z]{3,20} (?:[a-z]{3,20} )?"
    r"(?:street|avenue|road|lane|drive|boulevard)\b"
)
_SUFFIXES = tuple(word_lists()["street suffixes"])
_HOUSE = re.compile(r"\.? ?\d{1,4} ?[a-zA-Z]?\b")
_ROADS = word_set("roads before names")
_UNIT = re.compile(r"\b(?:apt|apartment|flat|unit|suite)\.? ?\w{1,5},? $", re.IGNORECASE)
_BEFORE_ROAD = re.compile(r"(?<!\d)\d{1,4}(?: ?(?:bis|ter))?,? $")
_ROAD = re.compile(
    r"\w+\.? (?:(?:de la|de|du|des|la|le|les|aux?) |(?:de )?[dl]['’]){0,2}[A-ZÉÈÀÂÎÔ][\w'’-]{1,30}"
)
_STREETS = word_set("streets before names")
_ENDS = frozenset(word[-3:] for word in (*_SUFFIXES, *_ROADS, *_STREETS))
_MAY_BE_STREET = matching(lambda word: word.lower()[-3:] in _ENDS)
_STREET = re.compile(
    r"\w+[./]? ?(?:[\w.'’-]{1,24} ){0,5}?[\w'’-]{2,24},? (?:n[º°.o]{0,2} ?)?\d{1,4}\b"
)
_BOX = re.compile(r"\bP\.? ?O\.? Box \d{1,6}\b|\bPostfach \d{2,8}\b", re.IGNORECASE)
_POSTCODE = re.compile(
    r"\b(?:[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}"  # United Kingdom
    r"|[A-Z]\d[A-Z] \d[A-Z]\d"  # Canada
    r"|[1-9]\d{3} [A-Z]{2}(?= [A-Z][a-z])"  # Netherlands
    r"|[A-Z][a-z]{2,15}, (?:A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|"
    r"N[CDEHJMVY]|O[HKR]|PA|RI|S[CD]|T[NX]|UT|V[AT]|W[AIVY]) \d{5}(?:-\d{4})?"
    r"|(?:D-|A-|CH-|F-)\d{4,5} [A-ZÄÖÜ][\wäöüßéè-]{2,20})\b"
)
_ENGLISH_STREETS = members(word_set("english streets"))
_BOXES = members(frozenset({"box", "postfach"}))
_REACH = 32  # from the digits of a postcode to the ends of all that its pattern examines
_PUBLIC = word_set("public addresses")


def find_addresses(reading: AnnotatedText) -> Iterator[SensitiveFinding]:
    """Yield each street address or postcode, once."""
    text = reading.text
    taken = 0
    for start, end in sorted([*_postcodes(reading), *_by_number(reading), *_by_words(reading)]):
        if start < taken:
            continue
        taken = end
        unit = _UNIT.search(text, max(0, start - 24), start)
        start = unit.start() if unit else start
        value = " ".join(text[start:end].split())
        if value.casefold().rstrip(".") not in _PUBLIC:
            yield SensitiveFinding(FindingKind.STREET_ADDRESS, start, end, value, 0.85)


def _postcodes(reading: AnnotatedText) -> Iterator[tuple[int, int]]:
    """Yield postcodes; they have digits, so only text around digits is searched."""
    text = reading.text
    for start, stop in windows(reading.digits, _REACH, len(text)):
        for match in _POSTCODE.finditer(text, start, stop):
            yield match.span()


def _by_number(reading: AnnotatedText) -> Iterator[tuple[int, int]]:
    """Yield addresses that begin with the house number, and post-office boxes."""
    text = reading.text
    if reading.digits and reading.has(_ENGLISH_STREETS):
        for pattern in (_ENGLISH, _ENGLISH_SMALL):
            taken = 0
            for start, _ in reading.digits:
                match = pattern.match(text, start) if start >= taken else None
                if match is not None:
                    taken = match.end()
                    yield match.span()
    if reading.has(_BOXES):
        for match in _BOX.finditer(text):
            yield match.span()


def _by_words(reading: AnnotatedText) -> Iterator[tuple[int, int]]:
    """Yield addresses whose word for a street is part of its name, or precedes it."""
    text, words = reading.text, reading.words
    for at in reading.where(_MAY_BE_STREET):
        word, small = words[at], words[at].lower()
        start, end = reading.starts[at], reading.ends[at]
        if small.endswith(_SUFFIXES) and word[0].isupper():
            house = _HOUSE.match(text, end)
            if house is None or house.end() - end < 1:
                continue
            alone = small in _SUFFIXES and at and reading.ends[at - 1] + 1 == start
            yield (reading.starts[at - 1] if alone else start), house.end()
        elif small in _ROADS:
            before = _BEFORE_ROAD.search(text, max(0, start - 12), start)
            road = _ROAD.match(text, start) if before else None
            if before and road:
                yield before.start(), road.end()
        elif small in _STREETS and (street := _STREET.match(text, start)):
            yield street.span()
