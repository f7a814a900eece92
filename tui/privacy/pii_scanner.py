"""Finds private-looking data in a text: patterns with checksums, in this process."""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from . import pii_patterns
from .pii_checksums import is_card, is_iban, is_isbn
from .private_span import PrivateKind, PrivateSpan

LONGEST = 1_000_000
"""Characters that are examined."""
_PIECE, _OVERLAP = 16_384, 512
_PHONE_WORDS = ("phone", "mobile", "telefon", "tel", "fax", "whatsapp", "handy", "call me")
_IDENTITY_WORDS = (
    "passport",
    "reisepass",
    "personalausweis",
    "ausweis",
    "identity card",
    "id card",
    "id number",
    "national id",
    "driving licence",
    "driver's license",
    "driver license",
    "führerschein",
    "social security",
    "tax id",
    "steuer-id",
    "versicherungsnummer",
    "insurance number",
)
_BIRTH_WORDS = ("born", "date of birth", "birthday", "dob", "geboren", "geburtsdatum")
_SECRET_WORDS = ("password", "passwort", "passwd", "passphrase", "secret", "api key", "api_key")
_MORE_SECRET_WORDS = ("apikey", "api-key", "access_key", "access key", "token", "pin code")
_PRIVATE_HOSTS = ("127.", "0.", "255.")
_PLACEHOLDERS = re.compile(
    r"x{3,}|\.{2,}|your|example|changeme|none|null|true|false|str|string|int|bytes|self|os\.|env",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d")


def scan(text: str) -> list[PrivateSpan]:
    """Return the findings in the order of the text; of overlapping ones, the more certain.

    Fit for a thread: a long text is taken in pieces, so that no match holds the GIL for long.
    """
    text = text[:LONGEST]
    taken: list[PrivateSpan] = []
    for finding in _private_keys(text):
        _take(finding, taken)
    for offset in range(0, len(text), _PIECE):
        piece = text[offset : offset + _PIECE + _OVERLAP]
        for finder in _FINDERS:
            for start, end, kind in finder(piece):
                if start < _PIECE:
                    _take(PrivateSpan(start + offset, end + offset, kind), taken)
    return taken


def _take(new: PrivateSpan, taken: list[PrivateSpan]) -> None:
    """Insert a finding, unless it overlaps an earlier one."""
    place = bisect(taken, new)
    behind = place < len(taken) and taken[place].start < new.end
    before = place > 0 and taken[place - 1].end > new.start
    if not behind and not before:
        taken.insert(place, new)


def summarize(findings: Iterable[PrivateSpan]) -> str:
    """Return `2 e-mails, IBAN`: each kind with its count, the most sensitive first; "" for none."""
    counts = Counter(finding.kind for finding in findings)
    return ", ".join(
        kind if counts[kind] == 1 else f"{counts[kind]} {_plural(kind)}"
        for kind in KINDS
        if counts[kind]
    )


KINDS: tuple[PrivateKind, ...] = get_args(PrivateKind)
"""All kinds, the most sensitive first."""


def _plural(kind: PrivateKind) -> str:
    if kind == "date of birth":
        return "dates of birth"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def _private_keys(text: str) -> Iterator[PrivateSpan]:
    if "PRIVATE KEY" not in text:
        return
    place = 0
    while (begin := pii_patterns.PRIVATE_KEY.search(text, place)) is not None:
        end = pii_patterns.END_OF_KEY.search(text, begin.end())
        place = end.end() if end else len(text)
        yield PrivateSpan(begin.start(), place, "private key")


def _secrets(text: str) -> Iterator[PrivateSpan]:
    for piece, pattern in pii_patterns.SECRETS:
        if piece not in text:
            continue
        for match in pattern.finditer(text):
            group = 1 if pattern.groups else 0
            yield PrivateSpan(match.start(group), match.end(group), "secret")


def _assigned_secrets(text: str) -> Iterator[PrivateSpan]:
    for end, word in _after(text, _SECRET_WORDS + _MORE_SECRET_WORDS):
        match = pii_patterns.ASSIGNED.match(text, end)
        if match is None or _PLACEHOLDERS.match(match[1]):
            continue
        spelled = match[1].rstrip(".")
        # A token has digits; a sentence about tokens continues with a word. So does `password is
        # needed`, while `password: needed` may be one.
        spoken = "is" in match[0][: match.start(1) - match.start()]
        if (spoken or word in _MORE_SECRET_WORDS) and not _DIGITS.search(spelled):
            continue
        yield PrivateSpan(match.start(1), match.start(1) + len(spelled), "secret")


def _emails(text: str) -> Iterator[PrivateSpan]:
    if "@" in text:
        for match in pii_patterns.EMAIL.finditer(text):
            yield PrivateSpan(match.start(), match.end(), "e-mail")


def _ibans(text: str) -> Iterator[PrivateSpan]:
    for match in pii_patterns.IBAN.finditer(text):
        # The pattern may include following words: shorten it until the checksum is right.
        found = match[0]
        while " " in found and not is_iban(found.replace(" ", "")):
            found = found.rpartition(" ")[0]
        if is_iban(found.replace(" ", "")):
            yield PrivateSpan(match.start(), match.start() + len(found), "IBAN")


def _cards(text: str) -> Iterator[PrivateSpan]:
    for match in pii_patterns.CARD.finditer(text):
        if is_card(re.sub(r"[ -]", "", match[0])):
            yield PrivateSpan(match.start(), match.end(), "card number")


def _identities(text: str) -> Iterator[PrivateSpan]:
    for match in pii_patterns.SOCIAL_SECURITY.finditer(text):
        yield PrivateSpan(match.start(), match.end(), "ID number")
    for end, _word in _after(text, _IDENTITY_WORDS):
        match = pii_patterns.IDENTITY.match(text, end)
        if match is not None and len(_DIGITS.findall(match[1])) >= 4:
            yield PrivateSpan(match.start(1), match.end(1), "ID number")


def _phones(text: str) -> Iterator[PrivateSpan]:
    for match in pii_patterns.PHONE.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if 8 <= len(digits) <= 15 and not is_isbn(digits):
            yield PrivateSpan(match.start(), match.end(), "phone")
    for end, _word in _after(text, _PHONE_WORDS):
        match = pii_patterns.NUMBER_AFTER_A_WORD.match(text, end)
        if match is not None and 7 <= len(_DIGITS.findall(match[1])) <= 15:
            yield PrivateSpan(match.start(1), match.end(1), "phone")


def _birthdays(text: str) -> Iterator[PrivateSpan]:
    for end, _word in _after(text, _BIRTH_WORDS):
        match = pii_patterns.BIRTHDAY.match(text, end)
        if match is not None:
            yield PrivateSpan(match.start(1), match.end(1), "date of birth")


def _addresses_of_hosts(text: str) -> Iterator[PrivateSpan]:
    for match in pii_patterns.IPV4.finditer(text):
        before = text[max(0, match.start() - 9) : match.start()].lower().rstrip(" :=v")
        valid = all(int(part) < 256 for part in match[0].split("."))
        if valid and not match[0].startswith(_PRIVATE_HOSTS) and not before.endswith("version"):
            yield PrivateSpan(match.start(), match.end(), "IP address")
    if text.count(":") < 3:
        return
    for match in pii_patterns.IPV6.finditer(text):
        if _is_ipv6(match[0]):
            yield PrivateSpan(match.start(), match.end(), "IP address")


def _is_ipv6(text: str) -> bool:
    # Times and ratios have colons as well; an address has a letter or a gap.
    if not (re.search("[A-Fa-f]", text) or "::" in text) or len(text) < 7:
        return False
    import ipaddress

    try:
        return not ipaddress.IPv6Address(text).is_loopback
    except ValueError:
        return False


def _homes(text: str) -> Iterator[PrivateSpan]:
    for pieces, pattern in pii_patterns.HOMES:
        if any(piece in text for piece in pieces):
            for match in pattern.finditer(text):
                yield PrivateSpan(match.start(), match.end(), "address")


def _after(text: str, words: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield where each of the words ends, ignoring case."""
    lower = text.lower()
    # a few letters are longer in lower case, which would shift positions
    if len(lower) != len(text):
        lower = text
    for word in words:
        place = lower.find(word)
        while place >= 0:
            end = place + len(word)
            if place == 0 or not lower[place - 1].isalpha():
                yield end, word
            place = lower.find(word, end)


_FINDERS = (
    _secrets,
    _ibans,
    _cards,
    _emails,
    _assigned_secrets,
    _identities,
    _phones,
    _birthdays,
    _addresses_of_hosts,
    _homes,
)
"""The most certain first."""
