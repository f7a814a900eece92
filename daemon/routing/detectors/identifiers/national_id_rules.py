"""Rules for personal and company numbers of many countries: shapes, layouts and check digits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ...text_analysis import checksums
from ...text_analysis.checksums import luhn, weighted
from ..finding import FindingKind


class IdRule(NamedTuple):
    """`shape` has 9 for a digit and A for a letter, without separators; `form` matches it more
    precisely.

    `layouts`, with separators, are so distinctive that no nearby word is needed; `*` stands for
    every layout. `check` gets the letters and digits in upper case.
    """

    country: str
    shape: str
    form: str = ""
    check: Callable[[str], bool] = bool
    layouts: tuple[str, ...] = ()
    kind: FindingKind = FindingKind.NATIONAL_ID

    def holds(self, plain: str) -> bool:
        """Whether letters and digits of this shape have a valid form and check digit."""
        return re.match(self.form, plain) is not None and self.check(plain)


def _sum(modulus: int, *weights: int) -> Callable[[str], bool]:
    """Return a check that the sum of digits times weights is divisible by the modulus."""
    return partial(_divisible, modulus, weights)


def _divisible(modulus: int, weights: Sequence[int], d: str) -> bool:
    return weighted(d, weights) % modulus == 0


def _mod11(*rows: Sequence[int]) -> Callable[[str], bool]:
    """Return a check of the digits after as many digits as a row has weights: 11 minus the sum's
    remainder by 11, and 0 for the remainders 0 and 1.
    """
    return partial(_follow_mod11, rows)


def _follow_mod11(rows: Sequence[Sequence[int]], d: str) -> bool:
    for weights in rows:
        rest = weighted(d, weights) % 11
        if int(d[len(weights)]) != (0 if rest < 2 else 11 - rest):
            return False
    return True


def _de_tax(d: str) -> bool:
    counts = sorted(d[:10].count(digit) for digit in set(d[:10]))
    return counts[-1] in (2, 3) and checksums.mod11_10(d)


def _icao(s: str) -> bool:
    """Validate the check digit of travel documents and German identity cards (ICAO 9303)."""
    return weighted("".join(str(int(c, 36) % 10) for c in s[:-1]), (7, 3, 1) * 4) % 10 == int(s[-1])


def _fr_key(s: str) -> bool:
    return 97 - int(s[:13].replace("2A", "19").replace("2B", "18")) % 97 == int(s[13:])


def _es_letter(s: str) -> bool:
    number = s[:8].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == s[8]


_IT_ODD = (
    1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
)  # fmt: skip


def _it_fiscal(s: str) -> bool:
    values = [int(c) if c.isdigit() else ord(c) - 65 for c in s[:15]]
    total = sum(values[1::2]) + sum(_IT_ODD[value] for value in values[::2])
    return chr(total % 26 + 65) == s[15]


def _be(d: str) -> bool:
    return any(97 - int(front + d[:9]) % 97 == int(d[9:]) for front in ("", "2"))


def _se_long(d: str) -> bool:
    return luhn(d[2:])


def _no(d: str) -> bool:
    first = _divisible(11, (3, 7, 6, 1, 8, 9, 4, 5, 2, 1), d)
    return first and _divisible(11, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1), d)


def _fi(s: str) -> bool:
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(s[:6] + s[-4:-1]) % 31] == s[-1]


def _cn(s: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return "10X98765432"[weighted(s[:17], weights) % 11] == s[17]


def _tr(d: str) -> bool:
    odd, even = sum(map(int, d[0:9:2])), sum(map(int, d[1:8:2]))
    tenth = (odd * 7 - even) % 10 == int(d[9])
    return tenth and sum(map(int, d[:10])) % 10 == int(d[10])


def _cz(d: str) -> bool:
    return int(d) % 11 == 0 or int(d[:9]) % 11 == 10


def _ro(d: str) -> bool:
    rest = weighted(d[:12], (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return (1 if rest == 10 else rest) == int(d[12])


def _baltic(d: str) -> bool:
    rest = weighted(d[:10], (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)) % 11
    if rest == 10:
        rest = weighted(d[:10], (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)) % 11 % 10
    return rest == int(d[10])


def _bg(d: str) -> bool:
    return weighted(d[:9], (2, 4, 8, 5, 10, 9, 7, 3, 6)) % 11 % 10 == int(d[9])


def _ie(s: str) -> bool:
    extra = (ord(s[8]) - 64) * 9 if len(s) == 9 else 0
    return "WABCDEFGHIJKLMNOPQRSTUV"[(weighted(s[:7], range(8, 1, -1)) + extra) % 23] == s[7]


def _tw(s: str) -> bool:
    number = str("ABCDEFGHJKLMNPQRSTUVXYWZIO".index(s[0]) + 10)
    return _divisible(10, (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1), number + s[1:])


def _hk(s: str) -> bool:
    values = [ord(c) - 55 if c.isalpha() else int(c) for c in s[:7]]
    return "0A987654321"[(324 + sum(map(int.__mul__, values, range(8, 1, -1)))) % 11] == s[7]


def _sg(s: str) -> bool:
    letters = "JZIHGFEDCBA" if s[0] in "ST" else "XWUTRQPNMLK"
    return letters[(weighted(s[1:8], (2, 7, 6, 5, 4, 3, 2)) + 4 * (s[0] in "TG")) % 11] == s[8]


def _th(d: str) -> bool:
    return (11 - weighted(d[:12], range(13, 1, -1)) % 11) % 10 == int(d[12])


def _cl_rut(s: str) -> bool:
    rest = 11 - weighted(s[-2::-1], (2, 3, 4, 5, 6, 7, 2, 3)) % 11
    return {10: "K", 11: "0"}.get(rest, str(rest)) == s[-1]


def _ru_snils(d: str) -> bool:
    return weighted(d[:9], range(9, 0, -1)) % 101 % 100 == int(d[9:])


def _de_vat(s: str) -> bool:
    return checksums.mod11_10(s[2:])


_VIN_VALUES = dict(
    zip("ABCDEFGHJKLMNPRSTUVWXYZ", (*range(1, 9), *range(1, 6), 7, 9, *range(2, 10)), strict=True)
)


def is_vin(s: str) -> bool:
    """Whether a vehicle identification number has a valid North American check digit (ISO 3779)."""
    if set(s) & set("IOQ") or s.isdigit() or s.isalpha():
        return False
    values = [int(c) if c.isdigit() else _VIN_VALUES[c] for c in s]
    weights = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
    return "0123456789X"[sum(map(int.__mul__, values, weights)) % 11] == s[8]


_DAY, _MONTH = r"(?:0[1-9]|[12]\d|3[01])", r"(?:0[1-9]|1[0-2])"
_YMD, _DMY = r"\d\d" + _MONTH + _DAY, _DAY + _MONTH + r"\d\d"
_MONTH_OF_CENTURY = r"\d\d(?:[02468][1-9]|[13579][0-2])"  # plus 20 a century
_SE_DAY = r"(?:0[1-9]|[12]\d|3[01]|6[1-9]|[78]\d|9[01])"  # plus 60 without a registered residence
_NO_DAY = r"(?:[048][1-9]|[12569]\d|[37][01])"  # plus 40 for others than residents
_CZ_MONTH = r"(?:[0257][1-9]|[1368][0-2]|[49][1-9])"  # plus 50 for women, plus 20 if they ran out
_NOT_ZERO = r"(?!0+$)"
_CNPJ = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
_MEDICARE = _sum(10, 1, 3, 7, 9, 1, 3, 7, 9, -1)
_HEALTH, _TAX = FindingKind.HEALTH_ID, FindingKind.TAX_ID

RULES: tuple[IdRule, ...] = (
    IdRule("US", "9" * 9, r"(?!000|666|9)\d{3}(?!00)\d\d(?!0000)", bool, ("999-99-9999",)),
    IdRule("US", "9" * 9, r"9\d\d[5-9]", bool, ("999-99-9999",), _TAX),
    IdRule("GB", "AA999999A", r"(?!BG|GB|KN|NK|NT|TN|ZZ)[^DFIQUV][^DFIQUVO]\d{6}[A-D]", bool,
           ("*",)),
    IdRule("GB", "9" * 10, "", _sum(11, *range(10, 0, -1)), (), _HEALTH),
    IdRule("DE", "9" * 11, "[^0]", _de_tax, ("99 999 999 999",), _TAX),
    IdRule("DE", "A999999999", "", _icao),
    IdRule("FR", "9" * 15, r"[1-478]\d\d(?:0[1-9]|1[0-2]|[2-9]\d)", _fr_key, ("*",)),
    IdRule("FR", "999999A99999999", r"\d{5}2[AB]", _fr_key, ("*",)),
    IdRule("ES", "99999999A", "", _es_letter, ("*",)),
    IdRule("ES", "A9999999A", "[XYZ]", _es_letter, ("*",)),
    IdRule("IT", "AAAAAA99A99A999A", ".{8}[ABCDEHLMPRST]", _it_fiscal, ("*",)),
    IdRule("NL", "9" * 9, _NOT_ZERO, _sum(11, 9, 8, 7, 6, 5, 4, 3, 2, -1)),
    IdRule("BE", "9" * 11, "", _be, ("99.99.99-999.99",)),
    IdRule("PL", "9" * 11, _MONTH_OF_CENTURY, _sum(10, 1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)),
    IdRule("SE", "9" * 10, r"\d\d" + _MONTH + _SE_DAY, luhn, ("999999-9999",)),
    IdRule("SE", "9" * 12, r"(?:19|20)\d\d" + _MONTH + _SE_DAY, _se_long, ("99999999-9999",)),
    IdRule("NO", "9" * 11, _NO_DAY + _MONTH, _no, ("*",)),
    IdRule("DK", "9" * 10, _DMY, bool, ("999999-9999",)),
    IdRule("FI", "999999999A", _DMY, _fi, ("999999-999A",)),
    IdRule("FI", "999999A999A", _DMY, _fi, ("*",)),
    IdRule("FI", "999999A9999", _DMY, _fi, ("*",)),
    IdRule("PT", "9" * 9, "[1235689]", _mod11(range(9, 1, -1)), (), _TAX),
    IdRule("CH", "9" * 13, "756", _sum(10, *(1, 3) * 7), ("*",)),
    IdRule("AT", "9" * 10, r"\d{4}" + _DAY, _sum(11, 3, 7, 9, -1, 5, 8, 4, 2, 1, 6),
           ("9999 999999",)),
    IdRule("BR", "9" * 11, r"(?!(\d)\1+$)", _mod11(range(10, 1, -1), range(11, 1, -1)),
           ("999.999.999-99", "999999999-99")),
    IdRule("BR", "9" * 14, "", _mod11(_CNPJ[1:], _CNPJ), ("99.999.999/9999-99",), _TAX),
    IdRule("IN", "9" * 12, "[2-9]", checksums.verhoeff, ("9999 9999 9999",)),
    IdRule("IN", "AAAAA9999A", ".{3}[ABCFGHJLPT]", bool, ("*",), _TAX),
    IdRule("IN", "99AAAAA9999A9AA", r"(?:0[1-9]|[12]\d|3[0-8]).{11}Z", bool, ("*",), _TAX),
    IdRule("IN", "99AAAAA9999A9A9", r"(?:0[1-9]|[12]\d|3[0-8]).{11}Z", bool, ("*",), _TAX),
    IdRule("CN", "9" * 18, r"\d{6}(?:19|20)" + _YMD, _cn, ("*",)),
    IdRule("CN", "9" * 17 + "A", r"\d{6}(?:19|20)" + _YMD, _cn, ("*",)),
    IdRule("KR", "9" * 13, _YMD + "[1-9]", bool, ("999999-9999999",)),
    IdRule("JP", "9" * 12, "", _mod11((6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2))),
    IdRule("AU", "9" * 9, "", _sum(11, 1, 4, 3, 7, 5, 8, 6, 9, 10), (), _TAX),
    IdRule("AU", "9" * 10, "[2-6]", _MEDICARE, ("9999 99999 9",), _HEALTH),
    IdRule("AU", "9" * 11, "[2-6]", _MEDICARE, ("9999 99999 9-9", "9999 99999 9/9"), _HEALTH),
    IdRule("CA", "9" * 9, "", luhn, ("999-999-999",)),
    IdRule("ZA", "9" * 13, _YMD + r"\d{4}[012]", luhn, ("999999 9999 999",)),
    IdRule("AE", "9" * 15, "784", luhn, ("999-9999-9999999-9",)),
    IdRule("DO", "9" * 11, "", luhn, ("999-9999999-9",)),
    IdRule("MX", "AAAA999999AAAAAA99", r".{4}" + _YMD + "[HMX]", bool, ("*",)),
    IdRule("MX", "AAAA999999AAAAAAA9", r".{4}" + _YMD + "[HMX]", bool, ("*",)),
    IdRule("MX", "AAAA999999AA9", r".{4}" + _YMD, bool, ("*",), _TAX),
    IdRule("MX", "AAAA999999A99", r".{4}" + _YMD, bool, ("*",), _TAX),
    IdRule("TR", "9" * 11, "[^0]", _tr),
    IdRule("CZ", "9" * 10, r"\d\d" + _CZ_MONTH + _DAY, _cz, ("999999/9999",)),
    IdRule("RO", "9" * 13, "[1-8]" + _YMD, _ro),
    IdRule("EE", "9" * 11, "[1-8]" + _YMD, _baltic),
    IdRule("LV", "9" * 11, _DMY, bool, ("999999-99999",)),
    IdRule("BG", "9" * 10, _MONTH_OF_CENTURY, _bg),
    IdRule("HR", "9" * 11, "", checksums.mod11_10),
    IdRule("IE", "9999999A", "", _ie),
    IdRule("IE", "9999999AA", "", _ie, ("9999999AA",)),
    IdRule("TW", "A999999999", ".[1289]", _tw, ("*",)),
    IdRule("HK", "A9999999", "", _hk, ("A999999(9)",)),
    IdRule("SG", "A9999999A", "[STFG]", _sg, ("*",)),
    IdRule("TH", "9" * 13, "", _th, ("9-9999-99999-99-9", "9 9999 99999 99 9")),
    IdRule("MY", "9" * 12, _YMD + "(?!00)", bool, ("999999-99-9999",)),
    IdRule("CL", "9" * 9, "", _cl_rut, ("99.999.999-9", "99999999-9"), _TAX),
    IdRule("CL", "99999999A", "", _cl_rut, ("99.999.999-A", "99999999-A"), _TAX),
    IdRule("CL", "9" * 8, "", _cl_rut, ("9.999.999-9",), _TAX),
    IdRule("AR", "9" * 11, "2[0347]|3[034]", _sum(11, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1),
           ("99-99999999-9",), _TAX),
    IdRule("RU", "9" * 11, "", _ru_snils, ("999-999-999 99", "999-999-999-99")),
    IdRule("IL", "9" * 9, _NOT_ZERO, luhn),
    IdRule("DE", "AA999999999", "DE", _de_vat, ("*",), _TAX),
    IdRule("AT", "AAA99999999", "ATU", bool, ("*",), _TAX),
)  # fmt: skip
