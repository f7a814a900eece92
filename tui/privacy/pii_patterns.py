"""Regular expressions of private data, compiled once; all are linear in the length of the text."""

from __future__ import annotations

import re

# Lengths by country, from the IBAN registry (SWIFT, release 98).
_IBANS = (
    "NO15 BE16 DK18 FI18 FK18 FO18 GL18 NL18 SD18 MK19 SI19 AT20 BA20 EE20 KZ20 LT20 LU20 "
    "MN20 XK20 CH21 CR21 HR21 LI21 LV21 BG22 BH22 DE22 GB22 GE22 IE22 ME22 RS22 VA22 AE23 "
    "GI23 IL23 IQ23 OM23 SO23 TL23 AD24 CZ24 ES24 MD24 PK24 RO24 SA24 SE24 SK24 TN24 VG24 "
    "LY25 PT25 ST25 IS26 TR26 BI27 DJ27 FR27 GR27 IT27 MC27 MR27 SM27 AL28 AZ28 BY28 CY28 "
    "DO28 GT28 HU28 LB28 NI28 PL28 SV28 BR29 EG29 PS29 QA29 UA29 JO30 KW30 MU30 YE30 MT31 "
    "SC31 LC32 RU33"
)
_IBAN_LENGTHS = {code[:2]: int(code[2:]) for code in _IBANS.split()}
_LEAST_CARD, _MOST_CARD = 13, 19


def luhn(digits: str) -> bool:
    """Return whether the last digit is the check digit of ISO/IEC 7812."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_card(digits: str) -> bool:
    """Return whether it can be a payment card number: length, first digit, check digit."""
    long_enough = _LEAST_CARD <= len(digits) <= _MOST_CARD
    return long_enough and digits[0] in "3456" and len(set(digits)) > 1 and luhn(digits)


def is_iban(text: str) -> bool:
    """Return whether an IBAN without spaces has its country's length and remainder 1 by 97 (ISO
    13616).
    """
    length = _IBAN_LENGTHS.get(text[:2])
    if length != len(text) or not text[2:4].isdigit() or not text.isalnum():
        return False
    return int("".join(str(int(letter, 36)) for letter in text[4:] + text[:4])) % 97 == 1


def is_isbn(digits: str) -> bool:
    """Return whether it is an ISBN of 10 or 13 digits with a valid check digit."""
    if len(digits) == 13 and digits.isdigit() and digits[:3] in ("978", "979"):
        return sum(int(d) * (3 if i % 2 else 1) for i, d in enumerate(digits)) % 10 == 0
    if len(digits) != 10 or not digits[:9].isdigit() or digits[9] not in "0123456789Xx":
        return False
    values = [int(d) for d in digits[:9]] + [10 if digits[9] in "xX" else int(digits[9])]
    return sum(value * (10 - i) for i, value in enumerate(values)) % 11 == 0


EMAIL = re.compile(
    r"(?<![\w.+-])[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}\b(?!:)"
)
IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}\b")
CARD = re.compile(
    r"(?<![\w.,+-])(?<![A-Z]{2}\d{2} )"
    r"(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,4}(?:\1\d{1,3})?|\d{4}([ -])\d{6}\2\d{5})"
    r"(?!\w|[.,-]\d)"
)
SOCIAL_SECURITY = re.compile(
    r"(?<![\w.-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-]|\.\d)"
)
PHONE = re.compile(
    r"(?<![\w.+])(?<!\d )(?:\+[1-9]\d{0,2}(?:[ ./-]{0,2}\(?\d{1,5}\)?){2,6}"
    r"|\(\d{3}\) ?\d{3}[ -]\d{4}|\d{3}-\d{3}-\d{4}|0\d{2,4}[ /-]\d{3,4}[ -]?\d{3,5})(?![\w-]|\.\d)"
)
NUMBER_AFTER_A_WORD = re.compile(
    r"[^\w\n]{0,4}(?:[a-z.]{1,7}[^\w\n]{1,3}){0,2}(\+?\(?\d[\d ()/.-]{5,20}\d)"
)
IDENTITY = re.compile(
    r"[^\w\n]{0,4}(?:[A-Za-zäöü][a-zäöü.]{0,9}[^\w\n]{1,3}){0,3}"
    r"((?=[A-Z]{0,3}[0-9])[A-Z0-9][A-Z0-9 /-]{4,18}[A-Z0-9])(?![\w-])"
)
BIRTHDAY = re.compile(
    r"[^\w\n]{0,4}(?:[a-z]{1,5}[^\w\n]{1,3}){0,2}"
    r"(\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}\.? [A-Za-zäü]{3,9}\.?,? \d{4}"
    r"|[A-Z][a-z]{2,8} \d{1,2},? \d{4})"
)
IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
IPV6 = re.compile(r"(?<![\w:])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f]*:)[0-9A-Fa-f:]{6,39}(?![\w:])")
_STREET = re.compile(
    r"\b\d{1,5}[a-zA-Z]?,? (?:[A-Z][\w'.-]{1,20} ){1,3}"
    r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Square|Terrace|Way)\b"
)
_STRASSE = re.compile(
    r"\b[A-ZÄÖÜ][\wäöüß.-]{1,30}(?:straße|strasse|str\.|weg|gasse|allee|platz)"
    r" \d{1,4} ?[a-zA-Z]?(?![\w.])"
)
_RUE = re.compile(
    r"\b\d{1,4},? (?:rue|avenue|boulevard|place|impasse|quai) (?:d[eu'] ?|des |la |l')*[A-ZÉ]"
)
HOMES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    ((" St", " Av", " Road", " Rd", " Lane", " Ln", " Dr", " B", " C", " Sq", " T", " W"), _STREET),
    (("str", "weg", "gasse", "allee", "platz"), _STRASSE),
    ((" rue ", " avenue ", " boulevard ", " place ", " impasse ", " quai "), _RUE),
)
"""Substrings of which every match has one, and the pattern."""
PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
END_OF_KEY = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
# Tokens must follow a non-word character, or every position of a long run would be tried.
SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("sk-", re.compile(r"(?<![\w-])sk-(?:[a-z]{2,8}-)?[\w-]{20,200}")),
    ("_live_", re.compile(r"(?<![\w-])[sr]k_live_\w{16,128}")),
    ("gh", re.compile(r"(?<![\w-])gh[pousr]_[A-Za-z0-9]{30,255}")),
    ("github_pat_", re.compile(r"(?<![\w-])github_pat_\w{40,255}")),
    ("glpat-", re.compile(r"(?<![\w-])glpat-[\w-]{20,64}")),
    ("xox", re.compile(r"(?<![\w-])xox[abeoprs]-[\w-]{10,255}")),
    ("A", re.compile(r"(?<![\w-])(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("AIza", re.compile(r"(?<![\w-])AIza[\w-]{35}")),
    ("hf_", re.compile(r"(?<![\w-])hf_[A-Za-z0-9]{30,64}\b")),
    ("npm_", re.compile(r"(?<![\w-])npm_[A-Za-z0-9]{36}\b")),
    ("pypi-", re.compile(r"(?<![\w-])pypi-[\w-]{50,255}")),
    ("eyJ", re.compile(r"(?<![\w-])eyJ[\w-]{10,4000}\.eyJ[\w-]{10,8000}\.[\w-]{10,1000}")),
    ("earer ", re.compile(r"\b[Bb]earer ([\w.~+/-]{20,4000}=*)")),
    ("://", re.compile(r"://[^\s:/@]{1,64}:([^\s/@]{3,128})@")),
)
"""A substring that every match has, and the pattern; a group, if present, is the secret."""
ASSIGNED = re.compile(
    r"[\"']?[ \t]{0,3}(?::|=|\bis\b|\blautet\b)[ \t]{0,3}[\"']?([^\s\"',;<>{}()\[\]$*]{4,200})"
)
