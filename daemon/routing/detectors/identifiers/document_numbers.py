"""Detects numbers identified only by nearby words: passports, licences, accounts, plates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from ...text_analysis.data_files import word_lists
from ...text_analysis.generated_strings import is_a_standard
from ...text_analysis.text_index import digit_runs, lowered
from ..context_words import Phrases, windows
from ..finding import FindingKind, SensitiveFinding, plain_finding
from .banking import find_ibans

_DOCUMENT_WORDS = {
    kind: Phrases(f"documents: {kind}", whole=True)
    for kind in FindingKind
    if f"documents: {kind}" in word_lists()
}
_ACCOUNTS = Phrases("documents: bank_account if about a bank", whole=True)
_ABBREVIATION = re.compile(r"[A-Z]{2,6}(?![A-Za-z])")
# Common words unless they are written in capitals.
_ABBREVIATIONS = {
    word: kind
    for kind in _DOCUMENT_WORDS
    for word in word_lists().get(f"abbreviations: {kind}", ())
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
_COLOUR = re.compile(r"\{\s*[a-z-]+:\s*#[0-9A-Fa-f]{3,8}\Z")  # `.cpf { color: #408090 }`
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
_WHOLE_DATE = re.compile(r"(?:19|20)\d\d[ .-]?\d\d[ .-]?\d\d\Z|\d\d[ .-]\d\d[ .-](?:19|20)\d\d\Z")
# UK driving licences: the name padded with nines, the birthday, and check characters.
_DRIVERS = Phrases("drivers", whole=True)
_UK_LICENCE = re.compile(
    r"(?<![A-Z0-9])[A-Z]{1,5}9{0,4}\d[0156]\d[0-3]\d\d[A-Z9]{2}[A-Z0-9][A-Z]{2}(?![A-Z0-9])"
)
_NEAR_A_DRIVER, _UK_LENGTH = 60, 16
# Machine-readable zones of travel documents (ICAO 9303): two lines of 44 or 36, or three of 30.
_ZONE = re.compile(
    r"[PVIAC][A-Z<][A-Z<]{3}[A-Z0-9<]{25,39}(?:[^\S\n]?\n[^\S\n]{0,8}[A-Z0-9<]{30,44}){0,2}(?![\w<])"
)

_PLATES = Phrases("plates", whole=True)
_PLATE_BEHIND = re.compile(
    _GAP + r"(?P<value>(?=[A-ZА-ЯÄÖÜ0-9 ·-]{0,9}\d)[A-ZА-ЯÄÖÜ0-9]{1,8}"
    r"(?:[ ·-]{1,3}[A-ZА-Я0-9]{1,7}){0,3})(?![\w%])"
)
_VEHICLES = Phrases("vehicles", whole=True)
_NEAR_A_VEHICLE = 50
# France and Italy, the United Kingdom, India, California and Russia.
_PLATE_FORMS = re.compile(
    r"(?<![\w-])(?:[A-Z]{2}-\d{3}-[A-Z]{2}|[A-HJ-NPR-Z]{2}\d{3}[A-Z]{2}|[A-Z]{2}\d{2} ?[A-Z]{3}"
    r"|[A-Z]{2}[ -]?\d{2}[ -]?[A-Z]{1,3}[ -]?\d{4}|\d[A-Z]{3}\d{3}"
    r"|[АВЕКМНОРСТУХ]\d{3}[АВЕКМНОРСТУХ]{2} ?\d{2,3})(?![\w-])"
)
_SHORTEST_PLATE, _LONGEST_PLATE = 4, 10


def find_document_numbers(text: str) -> Iterator[SensitiveFinding]:
    """Yield numbers after (or before) words such as `passport number`, in many languages."""
    numbers = [match.span() for match in _NUMBER.finditer(text)]
    if not numbers:
        return
    present = [(kind, words, words.present(text)) for kind, words in _DOCUMENT_WORDS.items()]
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
        if text[start - 1] == "+" or _COLOUR.search(text, end, match.end("value")):
            return  # a telephone, or a style
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
        for end in _DOCUMENT_WORDS[kind].ends(text):
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
    for start, stop in windows(near, _NEAR_A_DRIVER, len(text)):
        for licence in _UK_LICENCE.finditer(text, start, stop):
            if len(licence[0]) == _UK_LENGTH:
                yield plain_finding(FindingKind.DRIVING_LICENCE, licence, 0)
    for end in _DOTTED_IDS.ends(text):
        match = _DOTTED_ID.match(text, end)
        if match is not None:
            yield plain_finding(FindingKind.NATIONAL_ID, match)


def _is_amount(value: str) -> bool:
    """Whether it is a date, a fraction or a quantity."""
    return _WHOLE_DATE.match(value) is not None or _NUMBERS.match(value) is not None


def find_number_plates(text: str) -> Iterator[SensitiveFinding]:
    """Yield plates, most of which are too short to be distinguished from other codes by
    themselves.
    """
    if not digit_runs(text):
        return
    for end in _PLATES.ends(text):
        match = _PLATE_BEHIND.match(text, end)
        if match is not None and _is_plate(match["value"]):
            yield plain_finding(FindingKind.VEHICLE, match)
    near = sorted((end, end) for end in _VEHICLES.ends(text))
    for start, stop in windows(near, _NEAR_A_VEHICLE, len(text)):
        for match in _PLATE_FORMS.finditer(text, start, stop):
            yield plain_finding(FindingKind.VEHICLE, match, 0)


def _is_plate(value: str) -> bool:
    """Whether it has letters and digits, and a plausible number of them."""
    plain = "".join(filter(str.isalnum, value))
    mixed = any(map(str.isalpha, plain)) and any(map(str.isdigit, plain))
    return mixed and _SHORTEST_PLATE <= len(plain) <= _LONGEST_PLATE
