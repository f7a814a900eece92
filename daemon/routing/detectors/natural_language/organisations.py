"""Detects firms and employers: by legal form, by phrases about work, by unknown words near
"company".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..finding import FindingKind, SensitiveFinding
from .annotated_text import AnnotatedText
from .gazetteer import fold, shipped_gazetteer
from .word_table import matching, members, word_set

_PIECE = r"[A-ZÄÖÜÉ][\w&'’.-]{0,24}"
_NAME = rf"{_PIECE}(?: (?:(?:&|and|und|et|y|of|de|für|von) )?{_PIECE}){{0,4}}"
_LEGAL = re.compile(
    rf"\b({_NAME}),? (?:Inc|LLC|L\.L\.C|Ltd|Limited|PLC|plc|LLP|Corp|Corporation|GmbH|gGmbH|AG|KG|"
    r"OHG|UG|SE|e\.V|S\.A|SA|SARL|S\.A\.R\.L|SAS|S\.L|SL|S\.r\.l|SRL|SpA|B\.V|BV|NV|Pty|Oy|AB|ApS|"
    r"A/S|Kft|Ltda|Lda|Co\. KG|Pvt|Sdn Bhd|Holdings|Solicitors|Associates)\b\.?"
)
_EMPLOYER = re.compile(
    r"\b(?:i work (?:at|for)|my (?:company|employer|client|firm|school|clinic|hospital),?(?: is)?|"
    r"works (?:at|for)|working (?:at|for)|employed (?:at|by)|on behalf of|here at|team at|"
    r"position (?:\w+ ){0,4}at|job at|role (?:\w+ ){0,4}at|application to|joined|"
    r"(?:ich )?arbeite (?:bei|für)|angestellt bei|stelle bei|meine firma|mein arbeitgeber|"
    r"je travaille (?:chez|pour)|employée? (?:chez|par)|poste chez|"
    r"trabajo (?:en|para)|empleado (?:en|de)|puesto en) "
    r"(?:the |der |die |l[ae] |el )?"
    rf"((?-i:{_NAME}))",
    re.IGNORECASE,
)
_WELL_KNOWN = word_set("well-known organisations")
_KINDS = word_set("kinds of organisations")
_IS_KIND = members(_KINDS, folded=True)
_NAMING = frozenset({"called", "named", "is"})
_STRANGE = 4
"""Letters of a name: shorter unknown words are abbreviations, and variables in formulas."""


# A word, or part of one, of every match of `_LEGAL`.
_LEGAL_FORMS = word_set("legal forms")
_DOTTED_FORMS = ("L.L.C", "e.V", "S.A", "S.L", "S.r.l", "B.V", "A/S")
_IN_WORDS = re.compile(r"['’-]")
_IS_LEGAL_FORM = matching(lambda word: not _LEGAL_FORMS.isdisjoint(_IN_WORDS.split(word)))
# The first words of the phrases of `_EMPLOYER`.
_EMPLOYMENT = members(word_set("employment"))


def find_organisations(reading: AnnotatedText) -> Iterator[SensitiveFinding]:
    """Yield each firm once; well-known ones only if a person works there."""
    seen: set[str] = set()
    for match, certainty in _matches(reading):
        name = match[1].rstrip(".,'’")
        key = name.casefold()
        if key in seen or (match.re is _LEGAL and key in _WELL_KNOWN):
            continue
        seen.add(key)
        yield SensitiveFinding(
            FindingKind.ORGANISATION, match.start(1), match.start(1) + len(name), name, certainty
        )


def _matches(reading: AnnotatedText) -> Iterator[tuple[re.Match[str], float]]:
    """Yield matches of the patterns; they are slow, so they run only near an indication."""
    text = reading.text
    if reading.has(_IS_LEGAL_FORM) or any(map(text.__contains__, _DOTTED_FORMS)):
        yield from ((match, 0.85) for match in _LEGAL.finditer(text))
    for at in reading.where(_EMPLOYMENT):
        if match := _EMPLOYER.match(text, reading.starts[at]):
            yield match, 0.7


def find_strangers(reading: AnnotatedText) -> Iterator[SensitiveFinding]:
    """Yield unknown words next to "company", "university" and the like, in English texts."""
    folded = reading.folded
    beside = [
        at + step
        for at in reading.where(_IS_KIND)
        for step in (-1, 1, 2)
        if _is_beside(reading, at, step)
    ]
    flags = shipped_gazetteer().flags([fold(folded[at]) for at in beside])
    for at in sorted({at for at, flag in zip(beside, flags, strict=True) if not flag}):
        name = reading.words[at]
        yield SensitiveFinding(
            FindingKind.ORGANISATION, reading.starts[at], reading.ends[at], name, 0.6
        )


def _is_beside(reading: AnnotatedText, at: int, step: int) -> bool:
    """Whether the word `step` positions from the kind of firm at this index may be its name."""
    folded, other = reading.folded, at + step
    if not 0 <= other < len(folded) or (step == 2 and folded[at + 1] not in _NAMING):
        return False
    name = folded[other]
    before = min(at, other)
    if reading.text[reading.ends[before] : reading.starts[before + 1]] != " ":
        return False
    return len(name) >= _STRANGE and name.isalpha() and name not in _WELL_KNOWN
