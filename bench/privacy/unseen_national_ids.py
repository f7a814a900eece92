"""Numbers that states give to people, with the check digits of each state's rules."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING

import fresh_values
from fresh_values import luhn

if TYPE_CHECKING:
    from identifier_values import Values

Make = Callable[["Values"], str]
_CONSONANTS = "BCDFGLMNPRSTV"
# The values of a codice fiscale's characters at odd positions.
_ODD_DIGITS = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21)
_ODD_LETTERS = (2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
_ODD = dict(
    zip(
        string.digits + string.ascii_uppercase,
        (*_ODD_DIGITS, *_ODD_DIGITS, *_ODD_LETTERS),
        strict=True,
    )
)
_VERHOEFF_TURN = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def born(values: Values) -> date:
    """A day between 1945 and 1999."""
    return date(1945, 1, 1) + timedelta(days=values.random.randrange(20000))


def digits_of(values: Values, count: int, first: str = string.digits) -> str:
    """So many random ones, of which the first is one of `first`."""
    return values.random.choice(first) + values.letters(string.digits, count - 1)


def weighted(digits: str, weights: Sequence[int]) -> int:
    """The sum of digits times weights; a letter counts from 10 on."""
    return sum(int(digit, 36) * weight for digit, weight in zip(digits, weights, strict=True))


def modulo_11(weights: Sequence[int], over: str = "0") -> Callable[[str], str]:
    """The check digit that makes the weighted sum a multiple of 11; `over` for 10."""

    def check(digits: str) -> str:
        rest = -weighted(digits, weights) % 11
        return str(rest) if rest < 10 else over

    return check


def italian_letter(code: str) -> str:
    """The last letter of a codice fiscale, of the 15 before."""
    even = sum(int(sign) if sign.isdigit() else ord(sign) - 65 for sign in code[1::2])
    return chr(65 + (even + sum(_ODD[sign] for sign in code[::2])) % 26)


def verhoeff(digits: str) -> str:
    """Return the check digit of these, after J. Verhoeff (1969)."""

    def times(a: int, b: int) -> int:
        if a < 5:
            return (a + b) % 5 if b < 5 else 5 + (a + b) % 5
        return 5 + (a - b) % 5 if b < 5 else (a - b) % 5

    total = 0
    for place, digit in enumerate(reversed(digits), 1):
        turned = int(digit)
        for _ in range(place % 8):
            turned = _VERHOEFF_TURN[turned]
        total = times(total, turned)
    return str(total if total > 4 else -total % 5)


def modulo_11_10(digits: str) -> str:
    """Return the check digit of these by ISO 7064, for Germany's tax number and Croatia's OIB."""
    product = 10
    for digit in digits:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return str((11 - product) % 10)


def _italy(values: Values) -> str:
    day = born(values)
    shown = day.day + values.random.choice((0, 40))
    code = values.letters(_CONSONANTS, 6) + f"{day:%y}{'ABCDEHLMPRST'[day.month - 1]}{shown:02d}"
    code += values.random.choice("ABCDEFGHL") + values.letters(string.digits, 3)
    return code + italian_letter(code)


def _spain(values: Values) -> str:
    begin, digits = values.random.choice(("", "", "X", "Y")), digits_of(values, 7, "1234567")
    if not begin:
        digits += values.random.choice(string.digits)
    number = int(str("XY".find(begin) if begin else "") + digits)
    gap = values.random.choice(("", "", "-"))
    return f"{begin}{digits}{gap}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"


def _france(values: Values) -> str:
    day, sex = born(values), values.random.choice("12")
    place = f"{values.random.randrange(21, 95):02d} {values.random.randrange(1, 500):03d}"
    text = f"{sex} {day:%y} {day:%m} {place} {values.random.randrange(1, 400):03d}"
    text += f" {97 - int(text.replace(' ', '')) % 97:02d}"
    return text if values.random.random() < 0.6 else text.replace(" ", "")


def _german_pension(values: Values) -> str:
    text = f"{values.random.randrange(10, 30)}{born(values):%d%m%y}"
    letter, serial = values.random.choice("ABDGHKLMRSTW"), values.random.randrange(100)
    plain = f"{text}{ord(letter) - 64:02d}{serial:02d}"
    weights = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    total = sum(sum(divmod(int(d) * w, 10)) for d, w in zip(plain, weights, strict=True))
    gap = values.random.choice(("", " "))
    return gap.join((text[:2], text[2:], letter, f"{serial:02d}{total % 10}"))


def _german_card(values: Values) -> str:
    letters = "CFGHJKLMNPRTVWXYZ0123456789"
    text = values.random.choice("LMNPRTVWXY") + values.letters(letters, 8)
    return text + str(weighted(text, (7, 3, 1) * 3) % 10)


def _britain(values: Values) -> str:
    begin = values.random.choice(("AB", "CE", "HJ", "JR", "KM", "LP", "NS", "PX", "SB", "WE", "YZ"))
    text, end = values.letters(string.digits, 6), values.random.choice("ABCD")
    if values.random.random() < 0.5:
        return begin + text + end
    return f"{begin} {text[:2]} {text[2:4]} {text[4:]} {end}"


def until(body: Callable[[Values], str], check: Callable[[str], str]) -> Make:
    """Sample bodies until one has a check digit."""

    def make(values: Values) -> str:
        while (digit := check(text := body(values))) == "":
            pass
        return text + digit

    return make


def _poland(values: Values) -> str:
    text = f"{born(values):%y%m%d}" + values.letters(string.digits, 4)
    return text + str(-weighted(text, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)) % 10)


def brazil(digits: str) -> str:
    """The two check digits of a CPF, of the nine before."""
    for first in (10, 11):
        rest = weighted(digits, range(first, 1, -1)) % 11
        digits += str(0 if rest < 2 else 11 - rest)
    return digits[-2:]


def _cpf(values: Values) -> str:
    text = values.letters(string.digits, 9)
    return f"{text[:3]}.{text[3:6]}.{text[6:]}-{brazil(text)}"


def _sweden(values: Values) -> str:
    day, serial = born(values), values.letters(string.digits, 3)
    century = values.random.choice(("", "19"))
    return f"{century}{day:%y%m%d}-{serial}{luhn(f'{day:%y%m%d}' + serial)}"


def _norway(values: Values) -> str:
    first = modulo_11((3, 7, 6, 1, 8, 9, 4, 5, 2), "")
    second = modulo_11((5, 4, 3, 2, 7, 6, 5, 4, 3, 2), "")
    while True:
        text = f"{born(values):%d%m%y}{values.random.randrange(500):03d}"
        if (one := first(text)) and (two := second(text + one)):
            gap = values.random.choice(("", "", " "))
            return text[:6] + gap + text[6:] + one + two


def _denmark(values: Values) -> str:
    check = modulo_11((4, 3, 2, 7, 6, 5, 4, 3, 2), "")
    body = f"{born(values):%d%m%y}"
    while (
        digit := check(body + (serial := values.letters("0123", 1) + digits_of(values, 2)))
    ) == "":
        pass
    return f"{body}-{serial}{digit}"


def _finland(values: Values) -> str:
    day, serial = born(values), f"{values.random.randrange(2, 900):03d}"
    rest = int(f"{day:%d%m%y}{serial}") % 31
    return f"{day:%d%m%y}-{serial}{'0123456789ABCDEFHJKLMNPRSTUVWXY'[rest]}"


def _turkey(values: Values) -> str:
    text = digits_of(values, 9, "123456789")
    odd, even = (sum(map(int, text[begin::2])) for begin in (0, 1))
    text += str((odd * 7 - even) % 10)
    return text + str(sum(map(int, text)) % 10)


def _india(values: Values) -> str:
    text = digits_of(values, 11, "23456789")
    text += verhoeff(text)
    return f"{text[:4]} {text[4:8]} {text[8:]}" if values.random.random() < 0.7 else text


def _china(values: Values) -> str:
    place = values.random.choice(("110101", "110105", "310101", "310104", "120101"))
    text = f"{place}{born(values):%Y%m%d}" + values.letters(string.digits, 3)
    total = weighted(text, [2**power % 11 for power in range(17, 0, -1)])
    return text + "10X98765432"[total % 11]


def _korea(values: Values) -> str:
    text = f"{born(values):%y%m%d}" + values.random.choice("12")
    text += f"{values.random.randrange(97):02d}" + values.letters(string.digits, 3)
    total = weighted(text, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5))
    return f"{text[:6]}-{text[6:]}{(11 - total % 11) % 10}"


def _mexico(values: Values) -> str:
    place = values.random.choice(("DF", "JC", "NL", "PL", "VZ", "OC"))
    text = values.letters(_CONSONANTS, 1) + values.random.choice("AEIOU")
    text += values.letters(_CONSONANTS, 2) + f"{born(values):%y%m%d}"
    text += values.random.choice("HM") + place + values.letters(_CONSONANTS, 3) + "0"
    letters = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(letters.index(sign) * (18 - place) for place, sign in enumerate(text))
    return text + str(-total % 10)


def _chile(values: Values) -> str:
    text = str(values.random.randrange(5_000_000, 27_000_000))
    check = modulo_11((3, 2, 7, 6, 5, 4, 3, 2)[-len(text) :], "K")(text)
    return f"{int(text):,}".replace(",", ".") + f"-{check}"


def _romania(values: Values) -> str:
    text = f"{values.random.choice('12')}{born(values):%y%m%d}{values.random.randrange(1, 46):02d}"
    text += f"{values.random.randrange(1, 999):03d}"
    rest = weighted(text, (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return text + str(rest if rest < 10 else 1)


def _czechia(values: Values) -> str:
    day = born(values).replace(year=values.random.randrange(1955, 1999))
    text = f"{day:%y}{day.month + values.random.choice((0, 50)):02d}{day:%d}"
    while (rest := int(text + (serial := values.letters(string.digits, 3))) % 11) == 10:
        pass
    return f"{text}/{serial}{rest}"


def _belgium(values: Values) -> str:
    day, serial = born(values), f"{values.random.randrange(1, 998):03d}"
    check = 97 - int(f"{day:%y%m%d}{serial}") % 97
    return f"{day:%y.%m.%d}-{serial}.{check:02d}"


def _switzerland(values: Values) -> str:
    text = "756" + values.letters(string.digits, 9)
    check = -weighted(text, (1, 3) * 6) % 10
    return f"{text[:3]}.{text[3:7]}.{text[7:11]}.{text[11:]}{check}"


def _austria(values: Values) -> str:
    while True:
        serial, day = str(values.random.randrange(100, 1000)), f"{born(values):%d%m%y}"
        check = weighted(serial + day, (3, 7, 9, 5, 8, 4, 2, 1, 6)) % 11
        if check < 10:
            return f"{serial}{check} {day}"


def _ireland(values: Values) -> str:
    text, end = values.letters(string.digits, 7), values.random.choice(("", "A"))
    total = weighted(text, range(8, 1, -1)) + 9 * len(end)
    return f"{text}{'WABCDEFGHIJKLMNOPQRSTUV'[total % 23]}{end}"


def _snils(values: Values) -> str:
    text = digits_of(values, 9, "1")
    check = weighted(text, range(9, 0, -1)) % 101 % 100
    return f"{text[:3]}-{text[3:6]}-{text[6:]} {check:02d}"


def _thailand(values: Values) -> str:
    text = digits_of(values, 12, "1358")
    check = (11 - weighted(text, range(13, 1, -1)) % 11) % 10
    return f"{text[0]}-{text[1:5]}-{text[5:10]}-{text[10:]}-{check}"


def _indonesia(values: Values) -> str:
    place = values.random.choice(("317405", "327301", "357812", "510304", "127103"))
    return f"{place}{born(values):%d%m%y}{values.random.randrange(1, 60):04d}"


def _canada(values: Values) -> str:
    text = digits_of(values, 8, "124567")
    gap = values.random.choice((" ", "-"))
    return gap.join((text[:3], text[3:6], text[6:] + luhn(text)))


def _hungary(values: Values) -> str:
    text = values.letters(string.digits, 8)
    text += str(weighted(text, (3, 7) * 4) % 10)
    return f"{text[:3]} {text[3:6]} {text[6:]}"


def _greece(values: Values) -> str:
    text = f"{born(values):%d%m%y}" + values.letters(string.digits, 4)
    return text + luhn(text)


def _israel(values: Values) -> str:
    text = digits_of(values, 8, "023")
    return text + luhn(text)


def _taiwan(values: Values) -> str:
    text = values.random.choice("ABDEFH") + values.random.choice("12")
    text += values.letters(string.digits, 7)
    number = str("ABCDEFGHJKLMNPQRSTUVXYWZIO".index(text[0]) + 10)
    total = weighted(number + text[1:], (1, 9, 8, 7, 6, 5, 4, 3, 2, 1))
    return f"{text}{-total % 10}"


def _vietnam(values: Values) -> str:
    begin = values.random.choice(("001", "079", "048")) + values.random.choice("01")
    return begin + f"{born(values):%y}" + values.letters(string.digits, 6)


_FRESH = {"SG": "nric", "ZA": "south_africa_id", "AE": "emirates_id", "PK": "cnic", "MY": "mykad"}
NATIONAL_IDS: dict[str, Make] = {
    "AR": lambda v: f"{v.random.randrange(8_000_000, 48_000_000):,}".replace(",", "."),
    "AT": _austria, "BE": _belgium, "BR": _cpf, "CA": _canada, "CH": _switzerland, "CL": _chile,
    "CN": _china,
    "CO": lambda v: f"{v.random.randrange(1_000_000_000, 1_199_999_999):,}".replace(",", "."),
    "CZ": _czechia, "DE": _german_card, "DE-pension": _german_pension, "DK": _denmark,
    "ES": _spain, "FI": _finland, "FR": _france, "GB": _britain, "GR": _greece,
    "HR": lambda v: (text := digits_of(v, 10)) + modulo_11_10(text),
    "HU": _hungary, "ID": _indonesia, "IE": _ireland, "IL": _israel, "IN": _india, "IT": _italy,
    "KR": _korea, "MX": _mexico, "NG": lambda v: digits_of(v, 11, "123456789"),
    "NL": until(lambda v: digits_of(v, 8, "12345678"), modulo_11(range(-9, -1), "")),
    "NO": _norway, "PL": _poland, "RO": _romania, "RU": _snils, "SE": _sweden, "TH": _thailand,
    "TR": _turkey, "TW": _taiwan, "VN": _vietnam,
    **{region: fresh_values.MAKERS[kind] for region, kind in _FRESH.items()},
}  # fmt: skip
"""By the state's code."""
