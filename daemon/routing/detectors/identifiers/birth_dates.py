"""Detects dates of birth: a date near a word for birth."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.data_files import word_lists
from ...text_analysis.text_index import lowered
from ..context_words import Phrases
from ..finding import FindingKind, SensitiveFinding

_WORDS = Phrases("births", whole=True)
_TOLD, _OF_A_TELLER = tuple(word_lists()["births told"]), re.compile(r"\b(?:i|me|we)\b")
_LESS_CERTAIN, _BEFORE_A_TELLING = 0.9, 16
_MONTH = r"[^\W\d_]{3,12}\.?"
_DATE = (
    r"\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{4}\. \d{1,2}\. \d{1,2}\.?"
    r"|(?:明治|大正|昭和|平成|令和)\s?(?:\d{1,2}|元)\s?年\s?\d{1,2}\s?月\s?\d{1,2}\s?日?"
    r"|[MTSHR]\d{1,2}\.\d{1,2}\.\d{1,2}(?![\d.])|\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})(?!\d)"
    r"|\d{1,2}-[A-Za-z]{3}-\d{2,4}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.|er|º)?,? (?:of |de |d'|di )?{_MONTH},?(?: de| del"
    rf"| of)? \d{{4}}(?: (?:года?|року|г\.|р\.|r\.|godine))?"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|\d{{4}} {_MONTH} \d{{1,2}}"
    r"|\d{4}\s?[年년]\s?\d{1,2}\s?[月월]\s?\d{1,2}\s?[日일]?|\d{2} \d{2} \d{4}|(?:19|20)\d{6}(?!\d)"
)
_BEHIND = re.compile(
    r"[\"'*)_]{0,3}[^\w\n]{0,5}(?:\n[^\w\n]{0,4})?(?:(?!\d)\w[\w’'.()]{0,14}[^\w\n]{1,4}){0,5}?"
    rf"[\"']?(?P<date>{_DATE})"
)
_BEFORE = re.compile(
    rf"(?P<date>{_DATE})[^\w\n]{{1,4}}(?:(?!\d)\w[\w’']{{0,12}}[^\w\n]{{1,3}}){{0,4}}(?:\w[\w "
    rf"]{{0,20}})?\Z"
)
_LONGEST_BEFORE = 70
_YEAR = re.compile(r"\d{4}")
_FIRST_YEAR = 1905  # earlier birthdays belong to historical persons


def find_birth_dates(text: str) -> Iterator[SensitiveFinding]:
    """Yield dates in many notations after or before words of birth.

    Those that a sentence tells of another person, as encyclopaedias do, are less certain.
    """
    lower = lowered(text)
    for end in _WORDS.ends(text):
        begin, match = 0, _BEHIND.match(text, end)
        if match is None:
            line = text[max(0, end - _LONGEST_BEFORE) : end].rpartition("\n")[2]
            begin, match = end - len(line), _BEFORE.search(line)
        if match is None:
            continue
        year = _YEAR.search(match["date"])
        if year is None or int(year[0]) >= _FIRST_YEAR:
            start, stop = match.span("date")
            told = lower.endswith(_TOLD, 0, end) and not _OF_A_TELLER.search(
                lower, max(0, end - _BEFORE_A_TELLING), end
            )
            yield SensitiveFinding(
                FindingKind.DATE_OF_BIRTH,
                begin + start,
                begin + stop,
                match["date"],
                _LESS_CERTAIN if told else 1.0,
            )
