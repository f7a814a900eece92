"""Detects numbers directly after a label: mostly letters, or after an ambiguous word."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.generated_strings import is_a_standard
from ...text_analysis.text_index import digit_runs
from ..context_words import Phrases, windows
from ..finding import FindingKind, SensitiveFinding, plain_finding
from .document_numbers import DOCUMENT_WORDS

_GAP = (
    r"(?:[-_ ]?(?i:no|nr|num|number|nummer|n|numero|número|numéro|numer|№|#|номер|番号|番號|번호"
    r"|号码|号"
    r"|số))?"
    r"[.:]{0,2}[\"'`*]{0,3}[^\S\n]{0,3}[:=#→|]?[^\S\n]{0,3}(?:(?:is|ist|est|es|è|é|to|jest|är|er)[^\S\n])?"
    r"[\"'`*]{0,3}"
)
# After these labels short numbers count, and any length is plausible.
_LETTERED = re.compile(
    r"(?:[^\S\n]{1,2}(?!(?i:no|nr|num|number)\b)[^\W\d_][\w’'°º]{0,14}){0,2}[^\S\n]{0,2}"
    + _GAP
    + r"(?<![A-Za-z0-9])(?P<value>(?=[A-Z]{0,9}[0-9])[A-Z0-9]{7,16}"
    r"|[CFGHJK][0-9CFGHJKLMNPRTVWXYZ]{8})(?![\w-])"
)
# Requested in one line of a dialogue, and given in the next.
_ANSWER = re.compile(
    r"[^\n]{0,60}[.?:!][^\S\n]?\n{1,2}(?:[^\W\d_]{1,12}: ?|> ?)"
    r"(?P<value>[A-Z]{0,3}\d{6,12}|(?=[A-Z]{0,9}[0-9])[A-Z0-9]{8,16})(?![\w-])"
)
_LETTERED_KINDS = (FindingKind.PASSPORT, FindingKind.DRIVING_LICENCE, FindingKind.NATIONAL_ID)
_ACCOUNT_WORDS = Phrases("account labels", whole=True)
_ACCOUNT_NUMBER = r"(?P<value>\d(?:[ .-]?\d){6,29})(?![\w%]|[.,]\d)"
_ACCOUNT = re.compile(_GAP + _ACCOUNT_NUMBER)
# These are verbs, too: `the city counts 2500000 people`.
_ACCOUNT_VERBS = Phrases("account verbs", whole=True)
_SIGNED_ACCOUNT = re.compile(
    r"[^\S\n]{0,2}(?:[:=#]|(?i:no|nr|num|numero|numéro|número|n)[.:°º]{0,2}(?=[^\S\n]|\d))[^\S\n]{0,3}"
    + _ACCOUNT_NUMBER
)
_NUMBERS = re.compile(r"0?\.\d+\Z|\d{1,3}\.\d+\Z|\d{1,3}(?:[ .]\d{3})+\Z")
_DOTTED_IDS = Phrases("dotted ids", whole=True)
_DOTTED_ID = re.compile(_GAP + r"(?P<value>\d{1,3}(?:\.\d{3}){2,3}(?:-[\dXK])?|\d{7,10})(?![\w%])")
_DATE = re.compile(r"(?:19|20)\d\d[ .-]?\d\d[ .-]?\d\d\Z|\d\d[ .-]\d\d[ .-](?:19|20)\d\d\Z")
# UK driving licences: the name padded with nines, the birthday, and check characters.
_DRIVERS = Phrases("drivers", whole=True)
_UK_LICENCE = re.compile(
    r"(?<![A-Z0-9])[A-Z]{1,5}9{0,4}\d[0156]\d[0-3]\d\d[A-Z9]{2}[A-Z0-9][A-Z]{2}(?![A-Z0-9])"
)
_AROUND, _UK_LENGTH = 60, 16
# Machine-readable zones of travel documents (ICAO 9303): two lines of 44 or 36, or three of 30.
_ZONE = re.compile(
    r"[PVIAC][A-Z<][A-Z<]{3}[A-Z0-9<]{25,39}(?:[^\S\n]?\n[^\S\n]{0,8}[A-Z0-9<]{30,44}){0,2}(?![\w<])"
)


def find_labelled_documents(text: str) -> Iterator[SensitiveFinding]:
    """Yield passports, licences and cards with few digits, bare `account 1234567`, and travel
    zones.
    """
    if digit_runs(text):
        yield from _beside_words(text)
    if "<<" in text:
        for zone in _ZONE.finditer(text):
            if "<<" in zone[0] and not text[zone.start() - 1 : zone.start()].isalnum():
                yield plain_finding(FindingKind.PASSPORT, zone, 0)


def _beside_words(text: str) -> Iterator[SensitiveFinding]:
    for kind in _LETTERED_KINDS:
        for end in DOCUMENT_WORDS[kind].ends(text):
            match = _LETTERED.match(text, end)
            if match is not None and not (
                match["value"].isdigit() or is_a_standard(match["value"])
            ):
                yield plain_finding(kind, match)
            answer = _ANSWER.match(text, end)
            if answer is not None:
                yield plain_finding(kind, answer)
    for words, shape in ((_ACCOUNT_WORDS, _ACCOUNT), (_ACCOUNT_VERBS, _SIGNED_ACCOUNT)):
        for end in words.ends(text):
            match = shape.match(text, end)
            if match is not None and not _is_amount(match["value"]):
                yield plain_finding(FindingKind.BANK_ACCOUNT, match)
    near = sorted((end, end) for end in _DRIVERS.ends(text))
    for start, stop in windows(near, _AROUND, len(text)):
        for licence in _UK_LICENCE.finditer(text, start, stop):
            if len(licence[0]) == _UK_LENGTH:
                yield plain_finding(FindingKind.DRIVING_LICENCE, licence, 0)
    for end in _DOTTED_IDS.ends(text):
        match = _DOTTED_ID.match(text, end)
        if match is not None:
            yield plain_finding(FindingKind.NATIONAL_ID, match)


def _is_amount(value: str) -> bool:
    """Whether it is a date, a fraction or a quantity."""
    return _DATE.match(value) is not None or _NUMBERS.match(value) is not None
