"""Numbers of tax, health, passports, licences, accounts and vehicles, by the state's code."""

from __future__ import annotations

import string
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from fresh_values import formatted, luhn
from unseen_national_ids import (
    NATIONAL_IDS,
    Make,
    born,
    digits_of,
    modulo_11,
    modulo_11_10,
    until,
    weighted,
)

if TYPE_CHECKING:
    from identifier_values import Values


def _cnpj(values: Values) -> str:
    text = values.letters(string.digits, 8) + "0001"
    for weights in ((5, 4, 3, 2), (6, 5, 4, 3, 2)):
        rest = weighted(text, (*weights, 9, 8, 7, 6, 5, 4, 3, 2)) % 11
        text += str(0 if rest < 2 else 11 - rest)
    return f"{text[:2]}.{text[2:5]}.{text[5:8]}/{text[8:12]}-{text[12:]}"


def _inn(values: Values) -> str:
    text = "77" + values.letters(string.digits, 8)
    for weights in ((7, 2, 4, 10, 3, 5, 9, 4, 6, 8), (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)):
        text += str(weighted(text, weights) % 11 % 10)
    return text


def _ukraine(values: Values) -> str:
    text = str((born(values) - date(1899, 12, 31)).days) + values.letters(string.digits, 4)
    return text + str(weighted(text, (-1, 5, 7, 9, 4, 6, 10, 5, 7)) % 11 % 10)


def _german_tax(values: Values) -> str:
    """One digit of the first ten comes twice, one not at all."""
    digits = values.random.sample(string.digits, 9)
    digits.insert(values.random.randrange(2, 10), digits[0])
    if digits[0] == "0":
        digits = [str((int(digit) + 1) % 10) for digit in digits]
    text = "".join(digits)
    text += modulo_11_10(text)
    return (
        text if values.random.random() < 0.5 else f"{text[:2]} {text[2:5]} {text[5:8]} {text[8:]}"
    )


def _british_tax(values: Values) -> str:
    text = values.letters(string.digits, 9)
    return "21987654321"[weighted(text, (6, 7, 8, 9, 10, 5, 4, 3, 2)) % 11] + text


def _french_tax(values: Values) -> str:
    text = digits_of(values, 10, "0123")
    text += f"{int(text) % 511:03d}"
    return f"{text[:2]} {text[2:4]} {text[4:7]} {text[7:10]} {text[10:]}"


def _mexican_tax(values: Values) -> str:
    text = formatted(values, "{P1}E{P2}") + f"{born(values):%y%m%d}"
    text += values.letters("123456789ABCDEFGHIJKLMNPQRSTUV", 2)
    letters = "0123456789ABCDEFGHIJKLMN&OPQRSTUVWXYZ"
    total = sum(letters.index(sign) * (13 - place) for place, sign in enumerate(text))
    return text + "0A987654321"[total % 11]


def _greek_tax(values: Values) -> str:
    text = digits_of(values, 8, "01")
    return text + str(weighted(text, [2**power for power in range(8, 0, -1)]) % 11 % 10)


def _dashed(make: Make, *places: int, gap: str = "-") -> Make:
    """Insert a separator before each of these positions."""

    def dashed(values: Values) -> str:
        text = make(values)
        begins, ends = (0, *places), (*places, len(text))
        return gap.join(text[begin:end] for begin, end in zip(begins, ends, strict=True))

    return dashed


_nip = until(
    lambda v: digits_of(v, 9, "56789"), modulo_11((-6, -5, -7, -2, -3, -4, -5, -6, -7), "")
)
_cuit = until(
    lambda v: v.random.choice(("20", "27")) + digits_of(v, 8, "1234"),
    modulo_11((5, 4, 3, 2, 7, 6, 5, 4, 3, 2), ""),
)
_tfn = until(lambda v: digits_of(v, 8, "12345678"), modulo_11((-1, -4, -3, -7, -5, -8, -6, -9), ""))
TAX_IDS: dict[str, Make] = {
    "AR": _dashed(_cuit, 2, 10),
    "AU": _dashed(_tfn, 3, 6, gap=" "),
    "BR": _cnpj,
    "DE": _german_tax,
    "FR": _french_tax,
    "GB": _british_tax,
    "GR": _greek_tax,
    "IN": partial(formatted, form="{L3}P{L1}{d4}{L1}"),
    "IT": lambda v: (text := formatted(v, "0{d6}0{d1}5")) + luhn(text),
    "MX": _mexican_tax,
    "NZ": _dashed(
        until(lambda v: "12" + digits_of(v, 6), modulo_11((3, 2, 7, 6, 5, 4, 3, 2), "")), 3, 6
    ),
    "PL": _dashed(_nip, 3, 6, 8),
    "PT": lambda v: (text := digits_of(v, 8, "12")) + modulo_11(range(9, 1, -1))(text),
    "RU": _inn,
    "UA": _ukraine,
    "US": lambda v: formatted(v, v.random.choice(("9{d2}-7{d1}-{d4}", "4{d1}-{d7}"))),
}


def _german_health(values: Values) -> str:
    letter, text = values.random.choice("ABCDEHKMRST"), values.letters(string.digits, 8)
    plain = f"{ord(letter) - 64:02d}{text}"
    total = sum(sum(divmod(int(d) * (1 + place % 2), 10)) for place, d in enumerate(plain))
    return f"{letter}{text}{total % 10}"


def _medicare(values: Values) -> str:
    """Of the United States: places of letters and digits are fixed."""
    letters, text = "ACDEFGHJKMNPQRTUVWXY", values.random.choice("123456789")
    for sort in "Lxd-Lxd-LLdd":
        alphabet = {"L": letters, "x": letters + string.digits, "d": string.digits, "-": "-"}
        text += values.random.choice(alphabet[sort])
    return text


def _australian_medicare(values: Values) -> str:
    text = digits_of(values, 8, "23456")
    text += str(weighted(text, (1, 3, 7, 9, 1, 3, 7, 9)) % 10)
    return f"{text[:4]} {text[4:]} {values.random.randrange(1, 10)}"


def _ontario(values: Values) -> str:
    text = digits_of(values, 9, "123456789")
    text += luhn(text)
    return f"{text[:4]}-{text[4:7]}-{text[7:]}-{values.letters('ABCDEFGHJKMNPQRSTVWXYZ', 2)}"


_nhs = until(lambda v: digits_of(v, 9, "4679"), modulo_11(range(10, 1, -1), ""))
HEALTH: dict[str, Make] = {
    "AU": _australian_medicare,
    "CA": _ontario,
    "CH": lambda v: (text := "80756" + v.letters(string.digits, 14)) + luhn(text),
    "DE": _german_health,
    "ES": partial(formatted, form="BBBB{d12}"),
    "FR": NATIONAL_IDS["FR"],
    "GB": _dashed(_nhs, 3, 6, gap=" "),
    "US": _medicare,
    "insurer": partial(formatted, form="{L3}{d9}"),
    "record": partial(formatted, form="{d8}"),
}


def _read_by_machines(values: Values) -> str:
    """Of a passport's machine-readable zone, after ICAO 9303."""

    def checked(text: str) -> str:
        plain = text.replace("<", "0")
        return text + str(weighted(plain, [(7, 3, 1)[n % 3] for n in range(len(text))]) % 10)

    number = checked(formatted(values, "{L2}{d7}"))
    birth, end = checked(f"{born(values):%y%m%d}"), checked(f"{date(2031, 4, 9):%y%m%d}")
    rest = checked("<" * 14)
    last = checked(number + birth + end + rest)[-1]
    name = values.random.choice(("BAKKER<<LOTTE", "OKAFOR<<CHIDI", "LIND<<ANNA<MARIA"))
    sex = values.random.choice("MF")
    return f"P<UTO{name:<<39}\n{number}UTO{birth}{sex}{end}{rest}{last}"


def _british_licence(values: Values) -> str:
    day = born(values)
    month = day.month + values.random.choice((0, 50))
    name = values.random.choice(("EVANS", "HUGHE", "PATEL", "WOOD9", "KHAN9", "CLARK", "OBRIE"))
    begin = f"{name}{day.year // 10 % 10}{month:02d}{day:%d}{day.year % 10}"
    return begin + formatted(values, "{L2}9{L2}")


# For `formatted`: literal text, and numbers of letters of an alphabet.
_FORMS: dict[str, tuple[str, ...]] = {
    "passport:US": ("{d9}", "A{d8}"),
    "passport:GB": ("{d9}",),
    "passport:FR": ("{d2}{L2}{d5}",),
    "passport:IT": ("Y{L1}{d7}",),
    "passport:ES": ("{L3}{d6}",),
    "passport:IN": ("{L1}{d7}",),
    "passport:NL": ("N{L1}{C6}{d1}",),
    "passport:PL": ("E{L1} {d7}", "E{L1}{d7}"),
    "passport:RU": ("45{d2} {d6}", "45 {d2} {d6}"),
    "passport:UA": ("F{L1}{d6}", "{d9}"),
    "passport:JP": ("T{L1}{d7}",),
    "passport:CN": ("E{L1}{d7}", "E{d8}"),
    "passport:KR": ("M{d8}", "M{d3}{L1}{d4}"),
    "passport:BR": ("F{L1}{d6}",),
    "passport:CA": ("H{L1}{d6}",),
    "passport:TR": ("U{d8}",),
    "passport:AU": ("N{d7}", "PA{d7}"),
    "passport:SE": ("{d8}", "AA{d6}"),
    "licence:US": ("{L1}{d7}", "{L1}{d3}-{d3}-{d2}-{d3}-0", "{d8}", "{d9}"),
    "licence:DE": ("B{C9}{d1}",),
    "licence:FR": ("{d2}{L2}{d5}", "{d12}"),
    "licence:IT": ("U1{C7}{L1}",),
    "licence:IN": ("MH12 20{d2}00{d5}", "DL-0420{d2}01{d5}"),
    "licence:NL": ("5{d9}",),
    "licence:PL": ("{d5}/1{d1}/{d4}",),
    "licence:BR": ("0{d10}",),
    "licence:JP": ("{d12}",),
    "licence:AU": ("{d8}", "0{d8}"),
    "plate:DE": ("B-{L2} {d4}", "M {L2} {d3}", "HH-{L1} {d4}E"),
    "plate:GB": ("{L2}2{d1} {L3}", "{L2}1{d1}{L3}"),
    "plate:FR": ("{L2}-{d3}-{L2}",),
    "plate:IT": ("{L2} {d3} {L2}", "{L2}{d3}{L2}"),
    "plate:ES": ("{d4} {P3}", "{d4}{P3}"),
    "plate:NL": ("{L2}-{d3}-{L1}", "{L1}-{d3}-{L2}"),
    "plate:PL": ("WX {d5}", "KR {d1}{L2}{d2}", "GD {d3}{L2}"),
    "plate:US": ("{d1}{L3}{d3}", "{L3}-{d4}", "{L3} {d4}"),
    "plate:IN": ("MH 12 {L2} {d4}", "KA01{L2}{d4}"),
    "plate:BR": ("{L3}{d1}{L1}{d2}", "{L3}-{d4}"),
    "plate:SE": ("{P3} {d2}{P1}", "{P3} {d3}"),
    "plate:CH": ("ZH {d6}", "BE {d5}"),
    "plate:TR": ("34 {L3} {d3}", "06 {L2} {d4}"),
    "plate:RU": ("А{d3}ВС 77", "К{d3}МН 199"),
    "account:US": ("{d10}", "{d12}", "{d4}-{d6}"),
    "account:GB": ("{d8}",),
    "account:DE": ("{d10}", "{d7}"),
    "account:IN": ("{d11}", "{d14}", "5010{d10}"),
    "account:AU": ("{d6} {d3}", "{d9}"),
    "account:CA": ("{d7}", "{d5}-{d7}"),
    "account:JP": ("{d7}",),
    "account:KR": ("110-{d3}-{d6}", "{d6}-{d2}-{d6}"),
    "account:BR": ("{d5}-{d1}", "{d7}-{d1}"),
    "account:NG": ("0{d9}", "2{d9}"),
    "account:NZ": ("01-0{d3}-0{d6}-00",),
    "account:CZ": ("{d2}-{d10}/0800", "{d10}/2010"),
    "account:RU": ("40817810{d12}",),
    "account:ID": ("{d10}", "{d13}"),
    "account:TR": ("{d4}-{d8}",),
}


def _of_form(values: Values, forms: tuple[str, ...]) -> str:
    return formatted(values, values.random.choice(forms))


def _clabe(values: Values) -> str:
    text = values.random.choice(("002", "012", "014", "072")) + "180" + digits_of(values, 11)
    total = sum(int(digit) * (3, 7, 1)[place % 3] % 10 for place, digit in enumerate(text))
    return text + str(-total % 10)


def _polish_account(values: Values) -> str:
    text = values.letters(string.digits, 24)
    text = f"{98 - int(text + '252100') % 97:02d}{text}"
    return " ".join((text[:2], *(text[place : place + 4] for place in range(2, 26, 4))))


def _routing(values: Values) -> str:
    """Of a bank of the United States, after the American Bankers Association."""
    text = f"{values.random.randrange(1, 13):02d}" + values.letters(string.digits, 6)
    return text + str(-weighted(text, (3, 7, 1, 3, 7, 1, 3, 7)) % 10)


_BY_REGION: dict[str, dict[str, Make]] = {
    "national_id": NATIONAL_IDS,
    "tax_id": TAX_IDS,
    "health": HEALTH,
}
DOCUMENTS: dict[str, Make] = {
    **{f"{kind}:{of}": make for kind, makers in _BY_REGION.items() for of, make in makers.items()},
    **{kind: partial(_of_form, forms=forms) for kind, forms in _FORMS.items()},
    "passport:lines": _read_by_machines,
    "passport:DE": lambda v: "C" + v.letters("CFGHJKLMNPRTVWXYZ0123456789", 8),
    "licence:GB": _british_licence,
    "account:CN": lambda v: (text := "622202" + v.letters(string.digits, 12)) + luhn(text),
    "account:MX": _clabe,
    "account:PL": _polish_account,
    "routing": _routing,
}
"""By `kind:region`."""
