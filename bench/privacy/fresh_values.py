"""Values of the split `fresh`: other countries, issuers of cards and makers of keys."""

from __future__ import annotations

import hashlib
import json
import string
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import phonenumbers

if TYPE_CHECKING:
    from identifier_values import Values

LOCALES = (
    "en_PH", "bn_BD", "el_CY", "lb_LU", "es_CA", "am_ET", "ar_AE", "ar_PS", "fa_IR", "ne_NP",
    "hi_IN", "ta_IN",
)  # fmt: skip
_ALNUM = string.ascii_letters + string.digits
_UPPER = string.ascii_uppercase + string.digits
_LOWER = string.ascii_lowercase + string.digits
_URL = _ALNUM + "-_"
_HEX = "0123456789abcdef"
_ALPHABETS = {
    "a": _ALNUM, "u": _URL, "h": _HEX, "C": _UPPER, "l": _LOWER, "d": string.digits,
    "L": string.ascii_uppercase, "P": "BCDFGHJKLMNPRSTVWXYZ", "b": _ALNUM + "+/",
}  # fmt: skip
# As the makers document them, for `formatted`.
_KEYS = (
    "SG.{u22}.{u43}", "{h32}-us14", "{d10}:AA{u33}", "glsa_{a32}_{h8}", "{a14}.atlasv1.{u67}",
    "pat{a14}.{h64}", "pscale_tkn_{u43}", "EZAK{a54}", "dt0c01.{C24}.{C64}",
    "FLWSECK_TEST-{h32}-X", "ghr_{a36}", "glrt-{u20}", "glcbt-1a_{u20}", "HRKU-{uuid}",
    "pat-na1-{uuid}", "ico-{a32}", "API-{C26}", "sk-{a20}T3BlbkFJ{a20}", "xai-{a80}",
    "sk-lf-{uuid}", "lsv2_pt_{h32}_{h10}", "sk-ant-admin01-{u93}AA", "aio_{a28}", "CLOJARS_{h60}",
    "doo_v1_{h64}", "hvb.{u140}", "oy2{l43}", "access-sandbox-{uuid}", "rdme_{l70}",
    "shippo_live_{h40}", "shppa_{h32}", "sgp_{h40}", "squ_{h40}", "sqp_{h40}", "rk_test_{a24}",
    "tfp_{u59}", "waka_{uuid}", "bkua_{h40}", "duffel_live_{u43}", "sq0csp-{u43}",
    "re_{a8}_{a24}", "apify_api_{a36}", "dp.st.prd.{a43}", "lin_oauth_{h64}", "AKCp8{a68}",
    "sntrys_eyJ{a120}", "tskey-api-{a17}-{a32}", "NRII-{u32}", "pnu_{l36}", "fc-{h32}",
    "AVNS_{u19}", "CCIPAT_{a22}_{h40}", "dckr_oat_{u32}", "tk-us-{u48}", "sk-ant-oat01-{u93}AA",
    "https://hooks.slack.com/services/T{C8}/B{C10}/{a24}",
    "https://discord.com/api/webhooks/{d18}/{u68}",
)  # fmt: skip
_CARDS = (
    ("4", 16), ("5412", 16), ("5500", 16), ("2223", 16), ("2720", 16), ("34", 15), ("37", 15),
    ("6212", 16), ("6228", 19), ("3530", 16), ("3588", 16), ("36", 14), ("6011", 16), ("6521", 16),
    ("2200", 16), ("2204", 16), ("9792", 16), ("606282", 16), ("636297", 16), ("5019", 16),
    ("506112", 16),
)  # fmt: skip
# Digits (d), capitals (L) or both (C), as SWIFT's registry lists them.
_IBANS = {
    "AE": "d19", "SA": "d2 C18", "QA": "L4 C21", "KW": "L4 C22", "BH": "L4 C14", "LB": "d4 C20",
    "JO": "L4 d4 C18", "KZ": "d3 C13", "AD": "d8 C12", "CY": "d8 C16", "PK": "L4 C16",
    "CR": "d18", "DO": "C4 d20", "GT": "C4 C20", "VG": "L4 d16", "GI": "L4 C15", "EG": "d25",
    "IQ": "L4 d15", "SV": "L4 d20", "BR": "d23 L1 C1",
}  # fmt: skip
_PHONE_REGIONS = (
    "SG", "HK", "MY", "ZA", "NG", "EG", "SA", "QA", "KW", "PE", "EC", "UY", "CR", "PA", "MA", "TN",
    "SN", "CI", "PK", "LK", "BD", "KH", "MN", "KZ", "BY", "RS", "ME", "MD", "CY", "LB", "OM", "BH",
    "TZ", "UG", "ET", "CM", "AE", "IR", "NP", "BO", "PY", "GT", "HN", "JM", "TT", "FJ", "MU", "NA",
    "ZW", "ZM",
)  # fmt: skip
_BIRTHDAYS = (
    "%d-%m-%Y", "%Y/%m/%d", "%d.%m.%y", "%d. %B %Y", "%b %d, %Y", "%Y年%m月%d日", "%d %B, %Y",
)  # fmt: skip
_SECRET_PATHS = (
    "~/.pypirc", "~/.vault-token", "~/.my.cnf", "/etc/wireguard/wg0.conf", "web/.htpasswd",
    "app/release.keystore", "certs/prod.pfx", "old/id_dsa", "~/.config/gh/hosts.yml",
    "config/master.key",
    "ops/service-account.json", "~/.ssh/google_compute_engine", "config/database.yml",
    "~/.config/rclone/rclone.conf", "shop/.env.staging", "AuthKey_7KD92LQ4XR.p8",
)  # fmt: skip
_SCHEMES = ("postgresql", "mysql+pymysql", "amqps", "sftp", "https", "imaps", "neo4j", "mqtt")
_HOSTS = ("jenkins", "ldap", "proxmox", "wiki", "mssql", "ns", "backup", "esxi", "jira")
_HOST_ENDS = ("private", "home.arpa", "lan", "internal", "svc.cluster.local", "home", "corp")
_MAIL_HOSTS = (
    "gmail.com", "proton.me", "hotmail.fr", "web.de", "mail.ru", "naver.com", "posteo.net",
    "yahoo.co.uk", "uni-tartu.ee", "kaya.com.tr", "safari-tours.co.ke", "sub.ministry.gov.sg",
)  # fmt: skip
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def formatted(values: Values, form: str) -> str:
    """Text as it stands, `{uuid}`, and `{a40}` for so many letters of an alphabet."""
    text = ""
    for literal, field, _form, _conversion in string.Formatter().parse(form):
        text += literal
        if field == "uuid":
            text += str(uuid.UUID(int=values.random.getrandbits(128), version=4))
        elif field is not None:
            text += values.letters(_ALPHABETS[field[0]], int(field[1:]))
    return text


def luhn(digits: str) -> str:
    """Return the check digit of these."""
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[::-2])
    return str(-(doubled + sum(map(int, digits[-2::-2]))) % 10)


def _card(values: Values) -> str:
    begin, length = values.random.choice(_CARDS)
    digits = begin + values.letters(string.digits, length - len(begin) - 1)
    digits += luhn(digits)
    gap = values.random.choice(("", " ", " ", "-", "\u00a0", "."))
    if length in (14, 15):
        return gap.join((digits[:4], digits[4:10], digits[10:]))
    return gap.join(digits[place : place + 4] for place in range(0, length, 4))


def _iban(values: Values) -> str:
    country = values.random.choice(list(_IBANS))
    return iban_of(values, country, _IBANS[country])


def iban_of(values: Values, country: str, shape: str) -> str:
    """Return a valid IBAN of a country, whose body has a shape such as `L4 d14`."""
    parts = shape.split()
    body = "".join(values.letters(_ALPHABETS[part[0]], int(part[1:])) for part in parts)
    number = int("".join(str(int(letter, 36)) for letter in body + country + "00"))
    plain = f"{country}{98 - number % 97:02d}{body}"
    gap = values.random.choice(("", " ", "\u00a0"))
    return gap.join(plain[place : place + 4] for place in range(0, len(plain), 4))


def _phone(values: Values) -> str:
    """A valid number of a mobile or at home, as people of the country or others write it."""
    kinds = (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE)
    forms = phonenumbers.PhoneNumberFormat
    while True:
        region = values.random.choice(_PHONE_REGIONS)
        number = phonenumbers.example_number_for_type(region, values.random.choice(kinds))
        if number is None or number.national_number is None:
            continue
        number.national_number += values.random.randrange(-9000, 9000)
        if not phonenumbers.is_valid_number(number):
            continue
        form = values.random.choice((forms.INTERNATIONAL, forms.E164, forms.NATIONAL, None, None))
        if form is not None:
            return phonenumbers.format_number(number, form)
        text = phonenumbers.format_number(number, forms.INTERNATIONAL)
        return "00" + text[1:] if values.random.random() < 0.5 else text.replace(" ", ".")


def _weighted(digits: str, weights: Sequence[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))


def _nric(values: Values) -> str:
    begin, digits = values.random.choice("STFG"), values.letters(string.digits, 7)
    place = (_weighted(digits, (2, 7, 6, 5, 4, 3, 2)) + (4 if begin in "TG" else 0)) % 11
    return begin + digits + ("JZIHGFEDCBA" if begin in "ST" else "XWUTRQPNMLK")[place]


def _hong_kong(values: Values) -> str:
    letter, digits = values.random.choice("ABCDEGHKMPRVYZ"), values.letters(string.digits, 6)
    total = 36 * 9 + int(letter, 36) * 8 + _weighted(digits, (7, 6, 5, 4, 3, 2))
    return f"{letter}{digits}({'0123456789A'[-total % 11]})"


def _day(values: Values, form: str) -> str:
    return values.fake().date_of_birth(minimum_age=18, maximum_age=80).strftime(form)


def _south_africa(values: Values) -> str:
    digits = _day(values, "%y%m%d") + values.letters(string.digits, 4) + "08"
    return digits + luhn(digits)


def _emirates(values: Values) -> str:
    year, rest = _day(values, "%Y"), values.letters(string.digits, 7)
    return f"784-{year}-{rest}-{luhn('784' + year + rest)}"


def _saudi(values: Values) -> str:
    digits = values.random.choice("12") + values.letters(string.digits, 8)
    return digits + luhn(digits)


def _pakistan(values: Values) -> str:
    begin = values.random.choice("1234567") + values.letters(string.digits, 4)
    return f"{begin}-{values.letters(string.digits, 7)}-{values.random.randrange(1, 10)}"


def _malaysia(values: Values) -> str:
    place = values.random.randrange(1, 17)
    return f"{_day(values, '%y%m%d')}-{place:02d}-{values.letters(string.digits, 4)}"


def _ecuador(values: Values) -> str:
    digits = f"{values.random.randrange(1, 25):02d}{values.random.randrange(6)}"
    digits += values.letters(string.digits, 6)
    return digits + luhn(digits)


def _uruguay(values: Values) -> str:
    digits = values.random.choice("12345") + values.letters(string.digits, 6)
    check = -_weighted(digits, (2, 9, 8, 7, 6, 3, 4)) % 10
    return f"{digits[0]}.{digits[1:4]}.{digits[4:]}-{check}"


def _dominican(values: Values) -> str:
    begin, rest = f"{values.random.randrange(1, 120):03d}", values.letters(string.digits, 7)
    return f"{begin}-{rest}-{luhn(begin + rest)}"


def _iran(values: Values) -> str:
    digits = f"{values.random.randrange(1, 700):03d}" + values.letters(string.digits, 6)
    rest = _weighted(digits, range(10, 1, -1)) % 11
    return digits + str(rest if rest < 2 else 11 - rest)


def _japan(values: Values) -> str:
    digits = values.random.choice("123456789") + values.letters(string.digits, 10)
    rest = _weighted(digits, (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    digits += str(0 if rest < 2 else 11 - rest)
    return " ".join((digits[:4], digits[4:8], digits[8:]))


def _egypt(values: Values) -> str:
    place = values.random.choice(("01", "02", "12", "21", "88"))
    return "2" + _day(values, "%y%m%d") + place + values.letters(string.digits, 5)


def _sri_lanka(values: Values) -> str:
    day = values.random.randrange(1, 366) + values.random.choice((0, 500))
    return f"{_day(values, '%y')}{day:03d}{values.letters(string.digits, 4)}V"


_NATIONAL: tuple[Callable[[Values], str], ...] = (
    _nric, _hong_kong, _south_africa, _emirates, _saudi, _pakistan, _malaysia, _ecuador, _uruguay,
    _dominican, _iran, _japan, _egypt, _sri_lanka,
)  # fmt: skip


def _email(values: Values) -> str:
    first, last = values.fake().user_name(), values.fake().domain_word()
    shapes = ("{f}.{l}", "{f}_{l}", "{f}+{l}", "{f}{n}", "{l}-{n}", "{l}")
    name = values.random.choice(shapes).format(f=first, l=last, n=values.random.randrange(1, 99))
    return f"{name}@{values.random.choice(_MAIL_HOSTS)}"


def base58_check(body: bytes) -> str:
    """In the letters of Bitcoin, with its check sum."""
    body += hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4]
    number, text = int.from_bytes(body, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        text = _BASE58[rest] + text
    return "1" * (len(body) - len(body.lstrip(b"\0"))) + text


def _pem(values: Values) -> str:
    name = values.random.choice(("RSA PRIVATE KEY", "PRIVATE KEY", "DSA PRIVATE KEY"))
    lines = "\n".join(values.letters(_ALNUM + "+/", 64) for _ in range(10))
    text = f"-----BEGIN {name}-----\n{lines}\n-----END {name}-----"
    return json.dumps(text)[1:-1] if values.random.random() < 0.5 else text


def _password(values: Values) -> str:
    if values.random.random() < 0.5:
        return values.letters(_ALNUM + "!#%+=_", values.random.randrange(9, 19)) + "7"
    word = values.fake().domain_word().split("-")[0].capitalize()
    return f"{word}{values.random.choice('!_-.#')}{values.random.randrange(100, 9999)}"


def _connection(values: Values) -> str:
    login = f"{values.fake().domain_word()}:{values.letters(_ALNUM, 16)}"
    port = values.random.randrange(1025, 9999)
    return f"{values.random.choice(_SCHEMES)}://{login}@node{port % 7}.example.com:{port}/main"


def _path(values: Values) -> str:
    name, number = values.fake().domain_word(), values.random.randrange(1, 400)
    begin = values.random.choice(
        ("/mnt/c/Users/", "file:///home/", "C:/Users/", "D:\\Users\\", "/Users/", "/home/")
    )
    slash = "\\" if "\\" in begin else "/"
    return slash.join((begin + name, "Desktop", f"scan_{number}.docx"))


def _mac(values: Values) -> str:
    digits = values.letters(_HEX, 12)
    pairs = [digits[place : place + 2] for place in range(0, 12, 2)]
    cisco = ".".join(digits[place : place + 4] for place in (0, 4, 8))
    return values.random.choice(("-".join(pairs).upper(), ":".join(pairs).upper(), cisco))


def _ipv6(values: Values) -> str:
    groups = [f"{values.random.randrange(1, 65536):x}" for _ in range(4)]
    begin = values.random.choice(("fe80:", "2a02", "2a01:e0a", "fd12:3456"))
    return f"{begin}:{':'.join(groups)}" if begin == "fe80:" else f"{begin}:{':'.join(groups)}::1"


def _generic_key(values: Values) -> str:
    alphabet, count = values.random.choice(((_HEX, 64), (_URL, 43), (_ALNUM + "+/", 40)))
    return values.letters(alphabet, count - 1) + values.letters(alphabet.rstrip("-_+/"), 1)


MAKERS: dict[str, Callable[[Values], str]] = {
    "card": _card,
    "iban": _iban,
    "phone": _phone,
    "key": lambda v: formatted(v, v.random.choice(_KEYS)),
    "national_id": lambda v: v.random.choice(_NATIONAL)(v),
    "nric": _nric,
    "south_africa_id": _south_africa,
    "emirates_id": _emirates,
    "cnic": _pakistan,
    "mykad": _malaysia,
    "cedula": lambda v: v.random.choice((_ecuador, _uruguay, _dominican))(v),
    "email": _email,
    "bitcoin": lambda v: base58_check(b"\0" + v.random.randbytes(20)),
    "pem": _pem,
    "password": _password,
    "password_hash": lambda v: f"$2b$12${v.letters(_ALNUM + './', 53)}",
    "connection": _connection,
    "path": _path,
    "secret_path": lambda v: v.random.choice(_SECRET_PATHS),
    "host": lambda v: ".".join(
        (f"{v.random.choice(_HOSTS)}{v.random.randrange(1, 40):02d}", v.random.choice(_HOST_ENDS))
    ),
    "mac": _mac,
    "ipv6": _ipv6,
    "generic_key": _generic_key,
    "birthday": lambda v: _day(v, v.random.choice(_BIRTHDAYS)),
    "sort_code": lambda v: "-".join(v.letters(string.digits, 2) for _ in range(3)),
    "cvv": lambda v: v.letters(string.digits, 3),
    "plate": lambda v: v.letters("ABCDEFGHJK", 2) + v.letters(string.digits, 2)
    + " " + v.letters("ABCDEFGHJK", 3),
}  # fmt: skip
"""Values made differently from the other splits, or only here."""
