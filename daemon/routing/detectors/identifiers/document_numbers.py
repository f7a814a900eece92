"""Detects numbers identified only by nearby words: passports, licences, accounts, patients."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from ...text_analysis.data_files import word_lists
from ...text_analysis.text_index import lowered
from ..context_words import Phrases, windows
from ..finding import FindingKind, SensitiveFinding, plain_finding
from .banking import find_ibans

DOCUMENT_WORDS = {
    kind: Phrases(f"documents: {kind}", whole=True)
    for kind in FindingKind
    if f"documents: {kind}" in word_lists()
}
_ACCOUNTS = Phrases("documents: bank_account if about a bank", whole=True)
_ABBREVIATION = re.compile(r"[A-Z]{2,6}(?![A-Za-z])")
# Common words unless they are written in capitals.
_ABBREVIATIONS = {
    word: kind for kind in DOCUMENT_WORDS for word in word_lists().get(f"abbreviations: {kind}", ())
}
# Words next to an account number in a bank's own texts.
_OF_A_BANK = re.compile(
    r"(?<!\d)\d\d-\d\d-\d\d(?!\d)|\b(?:sort code|routing|aba|bsb|bic|swift|iban|ifsc|blz|bank"
    r"|banque|banco|banca|bankleitzahl)\b",
    re.IGNORECASE,
)
_LEAST_OF_ACCOUNTS, _NEAR_A_BANK = 6, 60
_BEHIND = re.compile(
    r"(?:[’'`]?s)?(?:[^\w\n]{0,3}\([^)\n]{1,20}\))?[^\w\n]{0,4}(?:[^\W\d_][\w.’']{0,12}[^\w\n]{1,4}){0,4}?"
    r"(?:\n[^\w\n]{0,4})?"
    r"(?P<value>(?=[A-Za-z]{0,5}-?\d|[A-Z]{1,4} \d)[A-Za-z0-9]{1,34}(?:[ ./–-]{1,2}(?=[A-Z]{0,3}\d"
    r"|[A-Z]{1,4}\b)"
    r"[A-Za-z0-9]{1,18}){0,6})(?!\w|[@%])"
)
_BEFORE = re.compile(
    r"(?<![\w.,-])([A-Z]{0,4}\d[A-Z0-9]{0,17}(?:[ ./-][A-Z0-9]{1,12}){0,5})[^\w\n]{1,3}"
    r"(?:(?:is|was|are|ist|war|est|es|é|è|as|for|als|für|comme|como|my|the|mein|meine|mon|ma|mi"
    r"|sua|"
    r"meu|minha|our|his|her|their|customer|client)[^\w\n]{1,2}){1,4}(?:\w{1,12}[^\w\n]{1,2}){0,1}\Z"
)
_PLATE = re.compile(
    r"[^\w\n]{0,4}(?:[^\W\d_][\w.’']{1,12}[^\w\n]{1,4}){0,3}?"
    r"(?P<value>(?=[A-ZÄÖÜ0-9 ·-]{0,9}\d)[A-ZÄÖÜ0-9]{1,7}(?:[ ·-]{1,3}[A-Z0-9]{1,7}){0,3})(?!\w)"
)
_SORT_CODE = re.compile(r"\d\d-\d\d-\d\d")
# Words in capitals that follow a number: `1234567 OK`.
_WORDS_BEHIND = re.compile(r"(?: [A-Z]{4,}\b.*| [A-Z]{2,})+\Z")
_DATE = re.compile(
    r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}$|(?:19|20)\d\d(?:[ /-]\d{2,4})?$|\d{1,2}[.:]\d{2}$"
)
# Plates have as few as two digits, between letters.
_NUMBER = re.compile(
    r"[0-9](?:(?:[ ./–-]{0,2}[A-Z]{0,3}[0-9]){2,}+"
    r"|(?<=[A-Z]{2}[0-9])[0-9](?= ?[A-Z]{3}(?![A-Za-z])))"
)
_AROUND = 90
_LEAST_DIGITS = {
    FindingKind.BANK_ACCOUNT: 5,
    FindingKind.VEHICLE: 1,
    FindingKind.PASSPORT: 5,
    FindingKind.DRIVING_LICENCE: 4,
}
_ENOUGH = 5


def find_document_numbers(text: str) -> Iterator[SensitiveFinding]:
    """Yield numbers after (or before) words such as `passport number`, in many languages."""
    numbers = [match.span() for match in _NUMBER.finditer(text)]
    if not numbers:
        return
    present = [(kind, words, words.present(text)) for kind, words in DOCUMENT_WORDS.items()]
    accounts = _ACCOUNTS.present(text)
    for start, stop in windows(numbers, _AROUND, len(text)):
        lower = lowered(text)[start:stop].replace("_", " ")
        for kind, words, phrases in present:
            for phrase in phrases:
                for end in words.ends_of(phrase, lower):
                    yield from _beside(text, kind, start + end)
        for phrase in accounts:
            for end in _ACCOUNTS.ends_of(phrase, lower):
                yield from _account(text, start + end)
        for match in _ABBREVIATION.finditer(text, start, stop):
            kind = _ABBREVIATIONS.get(match[0])
            if kind is None or text[match.start() - 1 : match.start()].isalnum():
                continue
            for finding in _beside(text, kind, match.end()):
                # `RFC 5322` is a document, `UID=1000` a user.
                if finding.value[0].isalpha() or match[0] not in ("RFC", "UID"):
                    yield finding


def _account(text: str, end: int) -> Iterator[SensitiveFinding]:
    """Yield numbers after an ambiguous word, if the text is about a bank."""
    if _OF_A_BANK.search(text, max(0, end - _NEAR_A_BANK), end + _NEAR_A_BANK):
        for finding in _beside(text, FindingKind.BANK_ACCOUNT, end):
            if sum(map(str.isdigit, finding.value)) >= _LEAST_OF_ACCOUNTS:
                yield finding


def _beside(text: str, kind: FindingKind, end: int) -> Iterator[SensitiveFinding]:
    plate = kind is FindingKind.VEHICLE
    match = (_PLATE if plate else _BEHIND).match(text, end)
    value = match["value"] if match is not None else ""
    value = value if plate else _WORDS_BEHIND.sub("", value)
    if match is not None and _is_number(value, kind):
        start = match.start("value")
        if text[start - 1] == "+":
            return  # a telephone
        # IBANs have a detector of their own, which knows their lengths.
        if next(find_ibans(text[start : match.end("value")]), None) is None:
            found = plain_finding(kind, match)
            plain = "".join(filter(str.isalnum, value)).upper()
            yield replace(found, end=start + len(value), value=plain)
        return
    begin = max(0, end - 90)
    match = _BEFORE.search(text[begin:end].rpartition("\n")[2].rstrip()) if begin else None
    if match is not None and _is_number(match[1], kind):
        start = text.index(match[1], begin)
        found = plain_finding(kind, match, 1)
        yield replace(found, start=start, end=start + len(match[1]))


def _is_number(value: str, kind: FindingKind) -> bool:
    digits = sum(map(str.isdigit, value))
    plain = sum(map(str.isalnum, value))
    sort_code = kind is FindingKind.BANK_ACCOUNT and _SORT_CODE.fullmatch(value)
    if plain > 34 or (_DATE.match(value) and not sort_code):
        return False
    # Some countries' numbers are mostly letters.
    if kind is FindingKind.NATIONAL_ID and 6 <= plain <= 12 and value.isalnum() and value.isupper():
        return digits >= 1
    return digits >= _LEAST_DIGITS.get(kind, _ENOUGH) and (
        plain >= 6 or kind is not FindingKind.PASSPORT
    )
