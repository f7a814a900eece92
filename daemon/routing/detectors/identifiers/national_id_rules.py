"""Rules for personal and company numbers of many countries: shapes, layouts and check digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...text_analysis import checksums
from ...text_analysis.checksums import luhn, weighted
from ..finding import FindingKind


class NationalIdRule(NamedTuple):
    """`shape` has 9 for a digit and A for a letter, without separators.

    `layouts`, with separators, are so distinctive that no nearby word is needed; `*` stands for
    every layout. `check` gets the letters and digits in upper case.
    """

    country: str
    shape: str
    check: Callable[[str], bool]
    layouts: tuple[str, ...] = ()
    kind: FindingKind = FindingKind.NATIONAL_ID


def _date(year: str, month: str, day: str) -> bool:
    return year.isdigit() and 1 <= int(month) <= 12 and 1 <= int(day) <= 31


def _ymd(digits: str) -> bool:
    return _date(digits[:2], digits[2:4], digits[4:6])


def _dmy(digits: str) -> bool:
    return _date(digits[4:6], digits[2:4], digits[:2])


def _us_ssn(d: str) -> bool:
    return d[:3] not in ("000", "666") and d[0] != "9" and d[3:5] != "00" and d[5:] != "0000"


def _us_itin(d: str) -> bool:
    return d[0] == "9" and d[3] in "56789"


def _uk_nino(s: str) -> bool:
    good = s[0] not in "DFIQUV" and s[1] not in "DFIQUVO" and s[8] in "ABCD"
    return good and s[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")


def _uk_nhs(d: str) -> bool:
    check = 11 - weighted(d[:9], range(10, 1, -1)) % 11
    return check != 10 and check % 11 == int(d[9])


def _de_tax(d: str) -> bool:
    counts = sorted(d[:10].count(digit) for digit in set(d[:10]))
    return d[0] != "0" and counts[-1] in (2, 3) and checksums.mod11_10(d)


def _icao(s: str) -> bool:
    """Validate the check digit of travel documents and German identity cards (ICAO 9303)."""
    return weighted("".join(str(int(c, 36) % 10) for c in s[:-1]), (7, 3, 1) * 4) % 10 == int(s[-1])


def _fr_nir(d: str) -> bool:
    month = int(d[3:5])
    return d[0] in "123478" and (1 <= month <= 12 or 20 <= month <= 99) and _fr_key(d)


def _fr_key(d: str) -> bool:
    return 97 - int(d[:13]) % 97 == int(d[13:])


def _fr_nir_corsica(s: str) -> bool:
    number = int(s[:5] + ("19" if s[6] == "A" else "18") + s[7:13])
    return s[5] == "2" and s[6] in "AB" and 97 - number % 97 == int(s[13:])


_ES_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"


def _es_dni(s: str) -> bool:
    return _ES_LETTERS[int(s[:8]) % 23] == s[8]


def _es_nie(s: str) -> bool:
    return s[0] in "XYZ" and _es_dni(str("XYZ".index(s[0])) + s[1:])


_IT_ODD = (
    1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
)  # fmt: skip


def _it_fiscal(s: str) -> bool:
    even = sum(int(c) if c.isdigit() else ord(c) - 65 for c in s[1:15:2])
    odd = sum(_IT_ODD[int(c) if c.isdigit() else ord(c) - 65] for c in s[0:15:2])
    return s[8] in "ABCDEHLMPRST" and chr((even + odd) % 26 + 65) == s[15]


def _nl_bsn(d: str) -> bool:
    return (weighted(d[:8], range(9, 1, -1)) - int(d[8])) % 11 == 0 and int(d) > 0


def _be(d: str) -> bool:
    return any(97 - int(front + d[:9]) % 97 == int(d[9:]) for front in ("", "2"))


def _pl_pesel(d: str) -> bool:
    month = int(d[2:4]) % 20
    return 1 <= month <= 12 and weighted(d, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def _se(d: str) -> bool:
    return (_ymd(d) or _date(d[:2], d[2:4], str(int(d[4:6]) - 60))) and luhn(d)


def _se_long(d: str) -> bool:
    return d[:2] in ("19", "20") and _se(d[2:])


def _no(d: str) -> bool:
    day = str(int(d[:2]) % 40)
    first = weighted(d, (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)) % 11 == 0
    return (
        first
        and _date(d[4:6], d[2:4], day)
        and not weighted(d, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11
    )


def _fi(s: str) -> bool:
    number = s[:6] + s[-4:-1]
    letters = "0123456789ABCDEFHJKLMNPRSTUVWXY"
    return number.isdigit() and _dmy(s) and letters[int(number) % 31] == s[-1]


def _pt_nif(d: str) -> bool:
    check = 11 - weighted(d[:8], range(9, 1, -1)) % 11
    return d[0] in "1235689" and (0 if check > 9 else check) == int(d[8])


def _ch_ahv(d: str) -> bool:
    return d.startswith("756") and weighted(d, (1, 3) * 7) % 10 == 0


def _at_svnr(d: str) -> bool:
    check = weighted(d[:3] + d[4:], (3, 7, 9, 5, 8, 4, 2, 1, 6)) % 11
    return check == int(d[3]) and 1 <= int(d[4:6]) <= 31


def _br_cpf(d: str) -> bool:
    first = weighted(d[:9], range(10, 1, -1)) * 10 % 11 % 10
    second = weighted(d[:10], range(11, 1, -1)) * 10 % 11 % 10
    return len(set(d)) > 1 and d[9:] == f"{first}{second}"


def _br_cnpj(d: str) -> bool:
    weights = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    for size in (12, 13):
        rest = weighted(d[:size], weights[13 - size :]) % 11
        if int(d[size]) != (0 if rest < 2 else 11 - rest):
            return False
    return True


def _in_aadhaar(d: str) -> bool:
    return d[0] not in "01" and checksums.verhoeff(d)


def _cn(s: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    check = "10X98765432"[weighted(s[:17], weights) % 11]
    return s[:17].isdigit() and s[6:8] in ("19", "20") and _ymd(s[8:14]) and check == s[17]


def _kr(d: str) -> bool:
    return _ymd(d) and d[6] in "123456789"


def _jp(d: str) -> bool:
    rest = weighted(d[:11], (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return (0 if rest <= 1 else 11 - rest) == int(d[11])


def _au_tfn(d: str) -> bool:
    return weighted(d, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def _au_medicare(d: str) -> bool:
    return d[0] in "23456" and weighted(d, (1, 3, 7, 9, 1, 3, 7, 9)) % 10 == int(d[8])


def _za(d: str) -> bool:
    return _ymd(d) and d[10] in "012" and luhn(d)


def _ae(d: str) -> bool:
    return d.startswith("784") and luhn(d)


def _mx_curp(s: str) -> bool:
    return s[10] in "HMX" and _ymd(s[4:10])


def _mx_rfc(s: str) -> bool:
    return _ymd(s[-9:-3])


def _tr(d: str) -> bool:
    odd, even = sum(map(int, d[0:9:2])), sum(map(int, d[1:8:2]))
    return (
        d[0] != "0"
        and (odd * 7 - even) % 10 == int(d[9])
        and sum(map(int, d[:10])) % 10 == int(d[10])
    )


def _cz(d: str) -> bool:
    month = int(d[2:4]) % 50 % 20
    return (
        1 <= month <= 12 and 1 <= int(d[4:6]) <= 31 and (int(d) % 11 == 0 or int(d[:9]) % 11 == 10)
    )


def _ro(d: str) -> bool:
    rest = weighted(d[:12], (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return d[0] in "12345678" and _ymd(d[1:7]) and (1 if rest == 10 else rest) == int(d[12])


def _baltic(d: str) -> bool:
    rest = weighted(d[:10], (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)) % 11
    if rest == 10:
        rest = weighted(d[:10], (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)) % 11 % 10
    return d[0] in "12345678" and _ymd(d[1:7]) and rest == int(d[10])


def _bg(d: str) -> bool:
    month = int(d[2:4]) % 20
    return 1 <= month <= 12 and weighted(d[:9], (2, 4, 8, 5, 10, 9, 7, 3, 6)) % 11 % 10 == int(d[9])


def _ie(s: str) -> bool:
    extra = (ord(s[8]) - 64) * 9 if len(s) == 9 else 0
    return "WABCDEFGHIJKLMNOPQRSTUV"[(weighted(s[:7], range(8, 1, -1)) + extra) % 23] == s[7]


def _tw(s: str) -> bool:
    number = str("ABCDEFGHJKLMNPQRSTUVXYWZIO".index(s[0]) + 10)
    weights = (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)
    return s[1] in "1289" and weighted(number + s[1:], weights) % 10 == 0


def _hk(s: str) -> bool:
    value = 324 + sum(
        (ord(c) - 55 if c.isalpha() else int(c)) * (8 - i) for i, c in enumerate(s[:7])
    )
    return "0A987654321"[value % 11] == s[7]


def _sg(s: str) -> bool:
    total = weighted(s[1:8], (2, 7, 6, 5, 4, 3, 2)) + (
        4 if s[0] in "TG" else 3 if s[0] == "M" else 0
    )
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK"}
    return s[0] in letters and letters[s[0]][total % 11] == s[8]


def _th(d: str) -> bool:
    return (11 - weighted(d[:12], range(13, 1, -1)) % 11) % 10 == int(d[12])


def _my(d: str) -> bool:
    return _ymd(d) and d[6:8] != "00"


def _cl_rut(s: str) -> bool:
    body = s[:-1]
    if not body.isdigit():
        return False
    rest = 11 - weighted(body[::-1], (2, 3, 4, 5, 6, 7, 2, 3)) % 11
    return {10: "K", 11: "0"}.get(rest, str(rest)) == s[-1]


def _ar_cuit(d: str) -> bool:
    rest = 11 - weighted(d[:10], (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return d[:2] in ("20", "23", "24", "27", "30", "33", "34") and rest % 11 == int(d[10])


def _ru_snils(d: str) -> bool:
    return weighted(d[:9], range(9, 0, -1)) % 101 % 100 == int(d[9:])


def _il(d: str) -> bool:
    return luhn(d) and int(d) > 0


def _in_pan(s: str) -> bool:
    return s[3] in "ABCFGHJLPT"


def _in_gstin(s: str) -> bool:
    return s[13] == "Z" and 1 <= int(s[:2]) <= 38


def _eu_vat_de(s: str) -> bool:
    return s[:2] == "DE" and checksums.mod11_10(s[2:])


def _at_vat(s: str) -> bool:
    return s[:3] == "ATU"


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


RULES: tuple[NationalIdRule, ...] = (
    NationalIdRule("US", "9" * 9, _us_ssn, ("999-99-9999",)),
    NationalIdRule("US", "9" * 9, _us_itin, ("999-99-9999",), FindingKind.TAX_ID),
    NationalIdRule("GB", "AA999999A", _uk_nino, ("*",)),
    NationalIdRule("GB", "9" * 10, _uk_nhs, (), FindingKind.HEALTH_ID),
    NationalIdRule("DE", "9" * 11, _de_tax, ("99 999 999 999",), FindingKind.TAX_ID),
    NationalIdRule("DE", "A999999999", _icao),
    NationalIdRule("FR", "9" * 15, _fr_nir, ("*",)),
    NationalIdRule("FR", "999999A99999999", _fr_nir_corsica, ("*",)),
    NationalIdRule("ES", "99999999A", _es_dni, ("*",)),
    NationalIdRule("ES", "A9999999A", _es_nie, ("*",)),
    NationalIdRule("IT", "AAAAAA99A99A999A", _it_fiscal, ("*",)),
    NationalIdRule("NL", "9" * 9, _nl_bsn),
    NationalIdRule("BE", "9" * 11, _be, ("99.99.99-999.99",)),
    NationalIdRule("PL", "9" * 11, _pl_pesel),
    NationalIdRule("SE", "9" * 10, _se, ("999999-9999",)),
    NationalIdRule("SE", "9" * 12, _se_long, ("99999999-9999",)),
    NationalIdRule("NO", "9" * 11, _no, ("*",)),
    NationalIdRule("DK", "9" * 10, _dmy, ("999999-9999",)),
    NationalIdRule("FI", "999999999A", _fi, ("999999-999A",)),
    NationalIdRule("FI", "999999A999A", _fi, ("*",)),
    NationalIdRule("FI", "999999A9999", _fi, ("*",)),
    NationalIdRule("PT", "9" * 9, _pt_nif, (), FindingKind.TAX_ID),
    NationalIdRule("CH", "9" * 13, _ch_ahv, ("*",)),
    NationalIdRule("AT", "9" * 10, _at_svnr, ("9999 999999",)),
    NationalIdRule("BR", "9" * 11, _br_cpf, ("999.999.999-99", "999999999-99")),
    NationalIdRule("BR", "9" * 14, _br_cnpj, ("99.999.999/9999-99",), FindingKind.TAX_ID),
    NationalIdRule("IN", "9" * 12, _in_aadhaar, ("9999 9999 9999",)),
    NationalIdRule("IN", "AAAAA9999A", _in_pan, ("*",), FindingKind.TAX_ID),
    NationalIdRule("IN", "99AAAAA9999A9AA", _in_gstin, ("*",), FindingKind.TAX_ID),
    NationalIdRule("IN", "99AAAAA9999A9A9", _in_gstin, ("*",), FindingKind.TAX_ID),
    NationalIdRule("CN", "9" * 18, _cn, ("*",)),
    NationalIdRule("CN", "9" * 17 + "A", _cn, ("*",)),
    NationalIdRule("KR", "9" * 13, _kr, ("999999-9999999",)),
    NationalIdRule("JP", "9" * 12, _jp),
    NationalIdRule("AU", "9" * 9, _au_tfn, (), FindingKind.TAX_ID),
    NationalIdRule("AU", "9" * 10, _au_medicare, ("9999 99999 9",), FindingKind.HEALTH_ID),
    NationalIdRule("AU", "9" * 11, _au_medicare, ("9999 99999 9-9", "9999 99999 9/9"),
                   FindingKind.HEALTH_ID),
    NationalIdRule("CA", "9" * 9, luhn, ("999-999-999",)),
    NationalIdRule("ZA", "9" * 13, _za, ("999999 9999 999",)),
    NationalIdRule("AE", "9" * 15, _ae, ("999-9999-9999999-9",)),
    NationalIdRule("DO", "9" * 11, luhn, ("999-9999999-9",)),
    NationalIdRule("MX", "AAAA999999AAAAAA99", _mx_curp, ("*",)),
    NationalIdRule("MX", "AAAA999999AAAAAAA9", _mx_curp, ("*",)),
    NationalIdRule("MX", "AAAA999999AA9", _mx_rfc, ("*",), FindingKind.TAX_ID),
    NationalIdRule("MX", "AAAA999999A99", _mx_rfc, ("*",), FindingKind.TAX_ID),
    NationalIdRule("TR", "9" * 11, _tr),
    NationalIdRule("CZ", "9" * 10, _cz, ("999999/9999",)),
    NationalIdRule("RO", "9" * 13, _ro),
    NationalIdRule("EE", "9" * 11, _baltic),
    NationalIdRule("LV", "9" * 11, _dmy, ("999999-99999",)),
    NationalIdRule("BG", "9" * 10, _bg),
    NationalIdRule("HR", "9" * 11, checksums.mod11_10),
    NationalIdRule("IE", "9999999A", _ie),
    NationalIdRule("IE", "9999999AA", _ie, ("9999999AA",)),
    NationalIdRule("TW", "A999999999", _tw, ("*",)),
    NationalIdRule("HK", "A9999999", _hk, ("A999999(9)",)),
    NationalIdRule("SG", "A9999999A", _sg, ("*",)),
    NationalIdRule("TH", "9" * 13, _th, ("9-9999-99999-99-9", "9 9999 99999 99 9")),
    NationalIdRule("MY", "9" * 12, _my, ("999999-99-9999",)),
    NationalIdRule("CL", "9" * 9, _cl_rut, ("99.999.999-9", "99999999-9"), FindingKind.TAX_ID),
    NationalIdRule("CL", "99999999A", _cl_rut, ("99.999.999-A", "99999999-A"), FindingKind.TAX_ID),
    NationalIdRule("CL", "9" * 8, _cl_rut, ("9.999.999-9",), FindingKind.TAX_ID),
    NationalIdRule("AR", "9" * 11, _ar_cuit, ("99-99999999-9",), FindingKind.TAX_ID),
    NationalIdRule("RU", "9" * 11, _ru_snils, ("999-999-999 99", "999-999-999-99")),
    NationalIdRule("IL", "9" * 9, _il),
    NationalIdRule("DE", "AA999999999", _eu_vat_de, ("*",), FindingKind.TAX_ID),
    NationalIdRule("AT", "AAA99999999", _at_vat, ("*",), FindingKind.TAX_ID),
)  # fmt: skip
