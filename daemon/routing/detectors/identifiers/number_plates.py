"""Detects vehicle number plates: after a word for them, or in a national format near a vehicle."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.text_index import digit_runs
from ..context_words import Phrases, windows
from ..finding import FindingKind, SensitiveFinding, plain_finding

_WORDS = Phrases("plates", whole=True)
_BEHIND = re.compile(
    r"(?:[-_ ]?(?i:no|nr|num|number|nummer|numer|№|#|номер|번호"
    r"|号))?[.:]{0,2}[\"'`*]{0,3}[^\S\n]{0,3}[:=#|]?[^\S\n]{0,3}"
    r"(?:(?:is|was|ist|est|es|è|é|to|jest|är|er|reads|of)[^\S\n])?[\"'`*]{0,3}"
    r"(?P<value>(?=[A-ZА-ЯÄÖÜ0-9 ·-]{0,9}\d)[A-ZА-ЯÄÖÜ0-9]{1,8}"
    r"(?:[ ·-]{1,3}[A-ZА-Я0-9]{1,7}){0,3})(?![\w%])"
)
_VEHICLES = Phrases("vehicles", whole=True)
_AROUND = 50
# France and Italy, the United Kingdom, India, California and Russia.
_FORMS = re.compile(
    r"(?<![\w-])(?:[A-Z]{2}-\d{3}-[A-Z]{2}|[A-HJ-NPR-Z]{2}\d{3}[A-Z]{2}|[A-Z]{2}\d{2} ?[A-Z]{3}"
    r"|[A-Z]{2}[ -]?\d{2}[ -]?[A-Z]{1,3}[ -]?\d{4}|\d[A-Z]{3}\d{3}"
    r"|[АВЕКМНОРСТУХ]\d{3}[АВЕКМНОРСТУХ]{2} ?\d{2,3})(?![\w-])"
)
_LEAST, _MOST = 4, 10


def find_number_plates(text: str) -> Iterator[SensitiveFinding]:
    """Yield plates, most of which are too short to be distinguished from other codes by
    themselves.
    """
    if not digit_runs(text):
        return
    for end in _WORDS.ends(text):
        match = _BEHIND.match(text, end)
        if match is not None and _is_plate(match["value"]):
            yield plain_finding(FindingKind.VEHICLE, match)
    near = sorted((end, end) for end in _VEHICLES.ends(text))
    for start, stop in windows(near, _AROUND, len(text)):
        for match in _FORMS.finditer(text, start, stop):
            yield plain_finding(FindingKind.VEHICLE, match, 0)


def _is_plate(value: str) -> bool:
    """Whether it has letters and digits, and a plausible number of them."""
    plain = "".join(filter(str.isalnum, value))
    mixed = any(map(str.isalpha, plain)) and any(map(str.isdigit, plain))
    return mixed and _LEAST <= len(plain) <= _MOST
