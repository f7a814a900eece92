"""Distinguishes generated codes from words, names and quantities."""

from __future__ import annotations

import re
from itertools import pairwise

_LEAST, _LEAST_LETTERS, _LONG = 8, 10, 16
_SORTS = (str.islower, str.isupper, str.isdigit)
_MARKS = frozenset("!#$%&*+=?@^~")
# Words with a trailing number that are about passwords, or occur near the word.
_NAMES = re.compile(
    r"(?:(?:sha|log|md|base|utf|utf8mb|oauth|pbkdf|argon|bcrypt|scrypt|aes|rsa|ed|ecdsa|x|rot|ntlm|tls|ssl|"
    r"http|ipv|web|windows|win|office|microsoft|m|o|python|py|java|php|node|postgres(?:ql)?|mysql|"
    r"sql|oracle|iphone|ipad|ios|android|galaxy|ubuntu|debian|keepass|step|page|line|version|v|"
    r"chapter|section|ticket|issue|pr|level|option|field|table|figure|room|form|case|type|part|"
    r"layer|user|server|host|node|db|cve|rfc|iso|din|nist|fips|pci|kb|wpa|wep|id|q|h|top)"
    r"[-_.]?\d[\d._-]*[a-z]*[-_/+]?)+\Z",
    re.IGNORECASE,
)
_MEASURE = re.compile(
    r"[\d.,:/-]+[A-Za-z%°]{0,4}\Z|\d+(?:st|nd|rd|th)?-[A-Za-z-]+\Z|[A-Za-z]{1,4}-?\d{1,3}\Z"
)
_ADDRESS = re.compile(
    r"\S+@\S+\.[a-z]{2,10}\Z|[a-z]+://|[\w.-]*/[\w./-]*\Z|[\w-]+(?:\.[a-z]{2,6})+\Z"
)
_FOR_A_LETTER = re.compile(r"[a-z]\d[a-z]{2}")
_HUMPS = re.compile(r"(?:[A-Z]{0,5}[A-Z]?[a-z]*[aeiouy][a-z]*)+[A-Z]{0,4}\Z")


def looks_generated(value: str) -> bool:
    """Whether its mix of characters rules out a word, name, quantity, place or file."""
    if len(value) < 6 or _NAMES.match(value) or _MEASURE.match(value) or _ADDRESS.match(value):
        return False
    if not value.isascii():
        return False
    letters = sum(map(str.isalpha, value))
    digits = sum(map(str.isdigit, value))
    inside = not _MARKS.isdisjoint(value[:-1])
    if value.isalpha():
        return len(value) >= _LEAST_LETTERS and _is_irregular(value)
    if digits == 0:
        return inside and letters >= 4 and not value.islower()
    if inside or value[-1] in _MARKS:
        return letters >= 3
    if len(value) < _LEAST or letters < 3:
        return False
    all_sorts = all(any(map(sort, value)) for sort in _SORTS)
    swapped = _FOR_A_LETTER.search(value) is not None
    return digits >= 3 or (all_sorts and (digits >= 2 or len(value) >= _LONG or swapped))


def is_a_standard(value: str) -> bool:
    """Whether it names a standard, version or page, such as `ISO14443A`."""
    return _NAMES.match(value) is not None


def _is_irregular(word: str) -> bool:
    """Whether capitals occur among lower-case letters other than at the start of words."""
    switches = sum(a.isupper() != b.isupper() for a, b in pairwise(word))
    return switches * 7 >= 2 * len(word) and _HUMPS.match(word) is None
