"""Detects telephone numbers of all countries; `phonenumbers` decides if shape and words do not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.checksums import isbn
from ...text_analysis.data_files import word_lists
from ...text_analysis.text_index import digits_together
from ..context_words import ContextWords
from ..finding import FindingKind, SensitiveFinding

_CANDIDATE = re.compile(
    r"[+(]?[0-9](?:[ .\-/–()\u00a0]{0,3}[0-9]){5,18}+(?:[ ,]{0,2}(?:x|ext\.?|#)[ "
    r".]{0,2}[0-9]{1,6})?"
)
_LEAST = 6
_NORTH_AMERICA = re.compile(
    r"(?:\+?1[ .-]?)?(?:\([2-9]\d\d\)[ .-]?\d{3}[ .-]?\d{4}|[2-9]\d\d([.-])\d{3}\1\d{4})"
    r"(?:[ ,]{0,2}(?:x|ext\.?|#)[ .]{0,2}\d{1,6})?"
)
_TRUNK = re.compile(r"\(?0[1-9]\d{0,4}\)?(?:[ ./–-]{1,3}\d{2,8}){1,5}")
_DATE = re.compile(r"(?:\d{1,2}|\d{4})([./-])\d{1,2}\1(?:\d{4}|\d{1,2})|(?:19|20)\d\d([./-])\d\d")
# The dates of pages and logs, vulnerabilities, American postcodes, and dates in addresses.
_FILE_NAME = re.compile(r"\.[A-Za-z]\w")
_YEARS = re.compile(r"(?:19|20)\d\d ?[-–/] ?(?:19|20)\d\d")
_ISO_DATE = re.compile(r"(?:19|20)\d\d-[01]\d-[0-3]\d")
_NO_PHONE = re.compile(r"CVE-\d+-\d+\Z|\b[A-Z]{2},?\s{1,2}\d{5}-\d{4}\Z|[a-z]/(?:19|20)\d\d-\d\d\Z")
_EXTENSION = re.compile(r"[xe#]")
_IN_NUMBERS = frozenset("0123456789+").__contains__
_DOTTED = re.compile(r"[0-9]+\.[0-9]+|[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_WORDS = ContextWords("phones", before=44, after=16)
_OTHER_WORDS = ContextWords("not phones", before=18, after=0)
# Countries that group numbers with a leading 0.
_TRUNK_COUNTRIES = word_lists()["countries with trunk prefixes"]


def find_phone_numbers(text: str) -> Iterator[SensitiveFinding]:
    """Yield numbers with a country code, in a national grouping, or near words for telephones."""
    if digits_together(text) < _LEAST:
        return
    for match in _CANDIDATE.finditer(text):
        raw = match[0]
        digits = sum(map(str.isdigit, raw))
        if digits < _LEAST or not _stands_alone(text, match.start(), match.end()):
            continue
        if raw.count("(") > raw.count(")") or _ISO_DATE.search(raw):
            continue
        if _FILE_NAME.match(text, match.end()) or _YEARS.fullmatch(raw.strip(" ()")):
            continue
        if _NO_PHONE.search(text[max(0, match.start() - 10) : match.end()]):
            continue
        length = _length(text, match.start(), raw, digits)
        if length:
            end = match.start() + length
            value = _plain(raw[:length])
            yield SensitiveFinding(FindingKind.PHONE, match.start(), end, value)


def _said(text: str, start: int, raw: str) -> bool:
    return _WORDS.near(text, start, start + len(raw))


def _length(text: str, start: int, raw: str, digits: int) -> int:
    """Return how much of the candidate is a telephone number; 0 for none of it."""
    plain = _plain(raw)
    if raw.startswith(("+", "(+")) or (raw.startswith("00") and digits >= 10):
        other = raw[0] == "0" and _OTHER_WORDS.before(text, start)
        length = 0 if other else _international(raw)
        if length or raw[0] != "0":
            return length or (len(raw) if 8 <= digits <= 15 and _said(text, start, raw) else 0)
    if raw[0] == "(" and ")" not in raw:
        return 0
    if _DOTTED.fullmatch(raw):
        return 0
    if _DATE.fullmatch(raw) or digits > 15 or (len(plain) == 13 and isbn(plain)):
        return 0
    likely = _NORTH_AMERICA.fullmatch(raw) or (
        (digits >= 7 or len(plain) < len(raw)) and _WORDS.near(text, start, start + len(raw))
    )
    if not likely:
        likely = _TRUNK.fullmatch(raw) and 9 <= digits <= 13 and _valid_somewhere(raw)
    if likely and not _OTHER_WORDS.before(text, start):
        return len(raw)
    return 0


def _international(raw: str) -> int:
    """Return the length of the digit groups that form a valid number of its country."""
    import phonenumbers

    number = raw
    while number:
        plain = _plain(number)
        plain = "+" + plain.lstrip("+").removeprefix("00" if plain.startswith("00") else "")
        try:
            if 7 <= len(plain) - 1 <= 15 and phonenumbers.is_possible_number(
                phonenumbers.parse(plain, None)
            ):
                return len(number)
        except phonenumbers.NumberParseException:
            return 0
        place = max(number.rfind(gap) for gap in " .-/–(x\u00a0")
        number = number[:place].rstrip(" .-/–(),") if place > 0 else ""
    return 0


def _valid_somewhere(raw: str) -> bool:
    import phonenumbers

    for country in _TRUNK_COUNTRIES:
        try:
            if phonenumbers.is_valid_number(phonenumbers.parse(raw, country)):
                return True
        except phonenumbers.NumberParseException:
            continue
    return False


def _plain(raw: str) -> str:
    extension = _EXTENSION.search(raw)
    return "".join(filter(_IN_NUMBERS, raw if extension is None else raw[: extension.start()]))


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, behind = text[max(0, start - 2) : start], text[end : end + 2]
    if (
        before[-1:].isalnum()
        or before[-1:] in ("_", "$", "€", "£", "#")
        or behind[:1] in ("_", "%")
    ):
        return False
    if behind[:1].isalpha() and behind[:1].isascii():
        return False
    # A comma before or after a number with a country code separates table columns.
    joined = (".", "-", "/", ":") if text[start] == "+" else (".", ",", "-", "/", ":")
    if len(before) == 2 and before[1] in joined and before[0].isdigit():
        return False
    return not (len(behind) == 2 and behind[0] in joined and behind[1].isdigit())
