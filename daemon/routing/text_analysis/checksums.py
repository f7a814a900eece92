"""Check-digit algorithms, which distinguish real numbers from similar ones."""

from __future__ import annotations

import operator
from collections.abc import Sequence

_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # the digit sum of its double


def luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of ISO/IEC 7812."""
    codes = digits.encode()
    return (sum(codes[::-2]) + sum(codes[-2::-2].translate(_DOUBLED)) - 48 * len(codes)) % 10 == 0


def weighted(digits: str, weights: Sequence[int]) -> int:
    """Return the sum of digits times weights, up to the shorter of both."""
    return sum(map(operator.mul, map(int, digits), weights))


def has_iban_check_digits(plain: str) -> bool:
    """Whether letters and digits are an IBAN by their check digits, by ISO 7064's system 97."""
    # Letters count as two digits, A as 10 and Z as 35.
    return int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1


def mod11_10(digits: str) -> bool:
    """Whether the last digit is the check digit of ISO 7064's hybrid system 11,10."""
    product = 10
    for digit in digits[:-1]:
        product = (((int(digit) + product) % 10 or 10) * 2) % 11
    return (11 - product) % 10 == int(digits[-1])


_VERHOEFF_STEP = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def verhoeff(digits: str) -> bool:
    """Whether the last digit is the check digit of Verhoeff's dihedral scheme."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        for _ in range(place % 8):
            value = _VERHOEFF_STEP[value]
        check = _in_dihedral_group(check, value)
    return check == 0


def _in_dihedral_group(one: int, other: int) -> int:
    """Return the product in the group of a pentagon: 0 to 4 are rotations, 5 to 9 reflections."""
    turned = one % 5 - other % 5 if one >= 5 else one + other
    return turned % 5 + (5 if (one >= 5) != (other >= 5) else 0)


def isbn(digits: str) -> bool:
    """Whether it is a book number of 10 or 13 characters with a valid check digit."""
    if len(digits) == 13 and digits.isdigit() and digits[:3] in ("978", "979"):
        return weighted(digits, (1, 3) * 7) % 10 == 0
    if len(digits) != 10 or not digits[:9].isdigit() or digits[9] not in "0123456789Xx":
        return False
    last = 10 if digits[9] in "xX" else int(digits[9])
    return (weighted(digits[:9], range(10, 1, -1)) + last) % 11 == 0
