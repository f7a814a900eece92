"""Checksums that distinguish real numbers from similar ones."""

from __future__ import annotations

# Lengths by country, from the IBAN registry (SWIFT, release 98).
_IBAN_LENGTHS = {
    **dict.fromkeys(("NO",), 15),
    **dict.fromkeys(("BE",), 16),
    **dict.fromkeys(("DK", "FI", "FO", "GL", "NL", "SD", "FK"), 18),
    **dict.fromkeys(("MK", "SI"), 19),
    **dict.fromkeys(("AT", "BA", "EE", "KZ", "LT", "LU", "MN", "XK"), 20),
    **dict.fromkeys(("CH", "CR", "HR", "LI", "LV"), 21),
    **dict.fromkeys(("BG", "BH", "DE", "GB", "GE", "IE", "ME", "RS", "VA"), 22),
    **dict.fromkeys(("AE", "GI", "IL", "IQ", "TL", "OM", "SO"), 23),
    **dict.fromkeys(("AD", "CZ", "ES", "MD", "PK", "RO", "SA", "SE", "SK", "TN", "VG"), 24),
    **dict.fromkeys(("LY", "PT", "ST"), 25),
    **dict.fromkeys(("IS", "TR"), 26),
    **dict.fromkeys(("BI", "DJ", "FR", "GR", "IT", "MC", "MR", "SM"), 27),
    **dict.fromkeys(("AL", "AZ", "BY", "CY", "DO", "GT", "HU", "LB", "NI", "PL", "SV"), 28),
    **dict.fromkeys(("BR", "EG", "PS", "QA", "UA"), 29),
    **dict.fromkeys(("JO", "KW", "MU", "YE"), 30),
    **dict.fromkeys(("MT", "SC"), 31),
    **dict.fromkeys(("LC",), 32),
    **dict.fromkeys(("RU",), 33),
}
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
    if len(digits) != 10 or not digits[:9].isdigit():
        return False
    if digits[9] not in "0123456789Xx":
        return False
    values = [int(d) for d in digits[:9]] + [10 if digits[9] in "xX" else int(digits[9])]
    return sum(value * (10 - i) for i, value in enumerate(values)) % 11 == 0
