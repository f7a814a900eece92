"""Street addresses and postcodes as people of many countries write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..finding import Finding, Kind
from .words import Word, phrase_set, word_set

# Every repetition is bounded, so that no text takes longer than in proportion to its length.
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
_SUFFIXES = (
    *("straße", "strasse", "str", "weg", "platz", "allee", "gasse", "damm", "ufer"),
    *("steig", "straat", "laan", "plein", "gracht", "kade", "dijk", "singel", "gatan", "vägen"),
    *("gata", "vej", "veien", "gade", "katu"),
)
_HOUSE = re.compile(r"\.? ?\d{1,4} ?[a-zA-Z]?\b")
_ROADS = word_set(
    "rue avenue av boulevard bd place chemin impasse allée quai route cours square passage faubourg"
)
_UNIT = re.compile(r"\b(?:apt|apartment|flat|unit|suite)\.? ?\w{1,5},? $", re.IGNORECASE)
_BEFORE_ROAD = re.compile(r"(?<!\d)\d{1,4}(?: ?(?:bis|ter))?,? $")
_ROAD = re.compile(
    r"\w+\.? (?:(?:de la|de|du|des|la|le|les|aux?) |(?:de )?[dl]['’]){0,2}[A-ZÉÈÀÂÎÔ][\w'’-]{1,30}"
)
_STREETS = word_set(
    "calle c avenida avda avd av plaza paseo carrera camino ronda via viale piazza corso rua "
    "travessa praça largo ul ulica ул улица"
)
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
_ENGLISH_STREETS = word_set(
    "street st avenue ave road rd lane ln drive dr boulevard blvd court ct place pl way terrace "
    "square close crescent gardens grove hill mews parkway pkwy highway hwy circle cir trail row "
    "walk quay parade estate nagar marg"
)
_NEEDED = (
    (_ENGLISH, _ENGLISH_STREETS),
    (_ENGLISH_SMALL, _ENGLISH_STREETS),
    (_BOX, frozenset({"box", "postfach"})),
)
_PUBLIC = phrase_set(
    "10 downing street;1600 pennsylvania avenue;221b baker street;4 privet drive;"
    "742 evergreen terrace;30 rockefeller plaza;350 fifth avenue;11 wall street"
)


def find_addresses(
    text: str, words: Sequence[Word], small: frozenset[str], detector: str
) -> Iterator[Finding]:
    """Each street address or postcode, once; `small` has the words in small letters."""
    taken = 0
    patterns = [_POSTCODE, *(one for one, needed in _NEEDED if not needed.isdisjoint(small))]
    spans = [match.span() for pattern in patterns for match in pattern.finditer(text)]
    spans += _by_words(text, words)
    for start, end in sorted(spans):
        if start < taken:
            continue
        taken = end
        unit = _UNIT.search(text, max(0, start - 24), start)
        start = unit.start() if unit else start
        value = " ".join(text[start:end].split())
        if value.casefold().rstrip(".") not in _PUBLIC:
            yield Finding(
                kind=Kind.STREET_ADDRESS,
                start=start,
                end=end,
                value=value,
                detector=detector,
                certainty=0.85,
            )


def _by_words(text: str, words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Addresses whose word for a street is part of its name, or stands before it."""
    for at, word in enumerate(words):
        small = word.text.lower()
        if small.endswith(_SUFFIXES) and word.text[0].isupper():
            house = _HOUSE.match(text, word.end)
            if house is None or house.end() - word.end < 1:
                continue
            alone = small in _SUFFIXES and at and words[at - 1].end + 1 == word.start
            yield (words[at - 1].start if alone else word.start), house.end()
        elif small in _ROADS:
            before = _BEFORE_ROAD.search(text, max(0, word.start - 12), word.start)
            road = _ROAD.match(text, word.start) if before else None
            if before and road:
                yield before.start(), road.end()
        elif small in _STREETS and (street := _STREET.match(text, word.start)):
            yield street.span()
