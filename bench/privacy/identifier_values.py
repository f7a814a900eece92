"""Made-up identifiers of every kind: from faker's locales where it has them, else from formats."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable

import fresh_values
import unseen_values
from faker import Faker

TUNING_LOCALES = (
    "en_US", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pl_PL", "pt_BR", "sv_SE", "en_CA",
    "zh_CN",
    "tr_TR", "en_AU", "ru_RU", "cs_CZ",
)  # fmt: skip
SECOND_LOCALES = (
    "en_GB", "de_AT", "de_CH", "fr_BE", "fr_CH", "es_MX", "es_CO", "es_AR", "pt_PT", "nl_BE",
    "da_DK",
    "no_NO", "fi_FI", "hu_HU", "ro_RO", "hr_HR", "bg_BG", "el_GR", "en_IN", "en_IE", "en_NZ",
    "ja_JP",
    "ko_KR", "he_IL", "id_ID", "th_TH", "zh_TW", "uk_UA", "lt_LT", "lv_LV", "et_EE", "sk_SK",
)  # fmt: skip
HELD_OUT_LOCALES = (
    "es_CL", "fr_QC", "it_CH", "de_LU", "de_LI", "sl_SI", "bs_BA", "mk_MK", "az_AZ", "vi_VN",
    "uz_UZ",
    "tw_GH", "ka_GE", "hy_AM", "fr_DZ", "ar_JO", "is_IS", "mt_MT", "sq_AL", "en_KE",
)  # fmt: skip
LOCALES = {
    "tuning": TUNING_LOCALES,
    "second": SECOND_LOCALES,
    "held out": HELD_OUT_LOCALES,
    "fresh": fresh_values.LOCALES,
    "unseen": unseen_values.LOCALES,
}
_ALNUM = string.ascii_letters + string.digits
_BASE32 = string.ascii_uppercase + "234567"
_HEX = "0123456789abcdef"
_URL = _ALNUM + "-_"
# Formats as the makers document them: a begin, then so many letters of an alphabet.
_TUNING_KEYS = (
    ("ghp_", _ALNUM, 36), ("AKIA", _BASE32, 16), ("xoxb-", string.digits, 24),
    ("sk-ant-api03-", _URL, 93), ("hf_", string.ascii_letters, 34), ("glpat-", _URL, 20),
    ("npm_", _ALNUM, 36), ("sk_live_", _ALNUM, 24), ("AIza", _URL, 35), ("dop_v1_", _HEX, 64),
    ("shpat_", _HEX, 32), ("gsk_", _ALNUM, 52), ("dckr_pat_", _URL, 27), ("figd_", _URL, 40),
)  # fmt: skip
_SECOND_KEYS = (
    ("gho_", _ALNUM, 36), ("github_pat_11", _ALNUM, 69), ("ASIA", _BASE32, 16),
    ("xoxp-", string.digits, 40), ("sk-proj-", _URL, 100), ("r8_", _ALNUM, 37),
    ("nvapi-", _URL, 64),
    ("pypi-AgEIcHlwaS5vcmc", _URL, 120), ("rubygems_", _HEX, 48), ("rk_live_", _ALNUM, 24),
    ("whsec_", _ALNUM, 32), ("GOCSPX-", _URL, 28), ("ya29.", _URL, 120), ("hvs.", _URL, 90),
    ("lin_api_", _ALNUM, 40), ("ntn_", _ALNUM, 46), ("sbp_", _HEX, 40), ("dapi", _HEX, 32),
    ("pul-", _HEX, 40), ("tskey-auth-", _ALNUM, 32), ("xkeysib-", _HEX, 64), ("key-", _HEX, 32),
    ("SK", _HEX, 32), ("PMAK-", _HEX, 24), ("NRAK-", string.ascii_uppercase + string.digits, 27),
    ("sq0atp-", _URL, 22), ("pplx-", _ALNUM, 48), ("tvly-", _ALNUM, 32), ("phx_", _ALNUM, 43),
)  # fmt: skip


_HELD_OUT_KEYS = (
    ("ghu_", _ALNUM, 36), ("ghs_", _ALNUM, 36), ("gldt-", _URL, 20), ("sk-or-v1-", _HEX, 64),
    ("sk-svcacct-", _URL, 90), ("csk-", _ALNUM, 48), ("jina_", _URL, 60), ("pcsk_", _ALNUM, 70),
    ("dp.pt.", _ALNUM, 43), ("CFPAT-", _URL, 43), ("EAAA", _URL, 60), ("shpss_", _HEX, 32),
    ("ATATT3", _URL, 180), ("fio-u-", _URL, 64), ("cio", _ALNUM, 32), ("sk_test_", _ALNUM, 24),
    ("LTAI", _ALNUM, 20), ("glptt-", _HEX, 40), ("nfp_", _ALNUM, 40), ("rzp_live_", _ALNUM, 14),
    ("sntryu_", _HEX, 64), ("xapp-1-A0123456789-1234567890123-", _HEX, 64),
)  # fmt: skip
_KEYS = {"tuning": _TUNING_KEYS, "second": _SECOND_KEYS, "held out": _HELD_OUT_KEYS}


class Values:
    """Values of one split: its locales, its makers of keys and its seed."""

    def __init__(self, split: str, seed: int) -> None:
        self.random = random.Random(f"{split}-{seed}")
        self.split = split
        self.keys = _KEYS.get(split, ())
        self.makers = _MAKERS | _OF_SPLIT.get(split, {})
        self._fakes = [Faker(name) for name in LOCALES[split]]
        for number, fake in enumerate(self._fakes):
            fake.seed_instance(seed * 1000 + number)

    def make(self, kind: str) -> str:
        """One value of a kind, such as `card`, or in `unseen` also `phone:DE`."""
        return self.makers[kind](self)

    def fake(self) -> Faker:
        """A locale of the split."""
        return self.random.choice(self._fakes)

    def letters(self, alphabet: str, count: int) -> str:
        """So many random letters."""
        return "".join(self.random.choice(alphabet) for _ in range(count))


def _card(values: Values) -> str:
    digits = values.fake().credit_card_number()
    while len(digits) < 14:  # 12 and 13 digits are no longer given out
        digits = values.fake().credit_card_number()
    style = values.random.randrange(4)
    gap = " " if style < 2 else "-" if style == 2 else ""
    if len(digits) == 15:
        return gap.join((digits[:4], digits[4:10], digits[10:]))
    return gap.join(digits[place : place + 4] for place in range(0, len(digits), 4))


def _iban(values: Values) -> str:
    plain = values.fake().iban()
    if values.random.random() < 0.5:
        return plain
    return " ".join(plain[place : place + 4] for place in range(0, len(plain), 4))


def _key(values: Values) -> str:
    begin, alphabet, count = values.random.choice(values.keys)
    if begin == "PMAK-":
        return begin + values.letters(_HEX, 24) + "-" + values.letters(_HEX, 34)
    if begin == "xkeysib-":
        return begin + values.letters(_HEX, 64) + "-" + values.letters(_ALNUM, 16)
    return begin + values.letters(alphabet, count)


def _jwt(values: Values) -> str:
    body = f'{{"sub":"{values.random.randrange(10**9)}","name":"x"}}'.encode()
    parts = (b'{"alg":"HS256","typ":"JWT"}', body, values.random.randbytes(32))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def _pem(values: Values) -> str:
    name = values.random.choice(("RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "))
    lines = "\n".join(values.letters(_ALNUM + "+/", 64) for _ in range(12))
    return f"-----BEGIN {name}PRIVATE KEY-----\n{lines}\n-----END {name}PRIVATE KEY-----"


def _birthday(values: Values) -> str:
    day = values.fake().date_of_birth(minimum_age=18, maximum_age=90)
    forms = ("%d.%m.%Y", "%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y", "%B %d, %Y", "%d %B %Y", "%d %b %Y")
    return day.strftime(values.random.choice(forms))


def _host(values: Values) -> str:
    name = values.random.choice(("db", "build", "nas", "printer", "gitlab", "vault", "mail"))
    end = values.random.choice(("corp", "internal", "local", "lan", "intranet"))
    return f"{name}-{values.random.randrange(1, 90)}.{values.fake().domain_word()}.{end}"


def _password(values: Values) -> str:
    while True:
        word = values.fake().password(length=values.random.randrange(9, 17))
        if word[0] not in "%@$*(){}<>" and not set(word) & set("<>{}()") and word[-1].isalnum():
            return word


def _path(values: Values) -> str:
    name, year = values.fake().domain_word(), values.random.randrange(1990, 2025)
    home = values.random.choice(("/home/", "/Users/", "C:\\Users\\"))
    slash = "\\" if "\\" in home else "/"
    return slash.join((home + name, "Documents", f"letter-{year}.pdf"))


_SECRET_PATHS = {
    "tuning": ("~/.ssh/id_rsa", "/srv/app/.env", "~/.aws/credentials", "~/.netrc"),
    "second": (
        "~/.ssh/id_ed25519", "shop/.env.production", "/root/.pgpass", "config/credentials.json",
        "~/.kube/config", "certs/server.key", "backup/passwords.kdbx", "~/.git-credentials",
    ),
    "held out": (
        "old/id_ecdsa", "deploy/.env.local", "ops/secrets.yaml", "~/.docker/config.json",
        "/etc/krb5.keytab",
        "vpn/client.p12", "app/keystore.jks", "net/terraform.tfstate", "old/wallet.dat", "~/.gnupg",
    ),
}  # fmt: skip
_SCHEMES = {
    "tuning": ("postgres", "mysql", "redis"),
    "second": ("mongodb+srv", "amqp", "postgresql+asyncpg", "mssql", "mariadb", "rediss"),
    "held out": ("mongodb", "ftp", "smtps", "clickhouse", "cockroachdb", "ldaps", "nats"),
}


def _connection(values: Values) -> str:
    scheme = values.random.choice(_SCHEMES[values.split])
    login = f"{values.fake().domain_word()}:{values.letters(_ALNUM, 12)}"
    return f"{scheme}://{login}@db{values.random.randrange(9)}.example.net/app"


def _us_ssn(values: Values) -> str:
    area = values.random.choice([n for n in range(1, 900) if n != 666])
    return (
        f"{area:03d}-{values.random.randrange(1, 100):02d}-{values.random.randrange(1, 10000):04d}"
    )


_MAKERS: dict[str, Callable[[Values], str]] = {
    "card": _card,
    "iban": _iban,
    "account": lambda v: v.letters(string.digits, v.random.randrange(8, 12)),
    "routing": lambda v: v.letters(string.digits, 9),
    "national_id": lambda v: v.fake().ssn(),
    "us_ssn": _us_ssn,
    "passport": lambda v: (
        v.letters(string.ascii_uppercase, v.random.choice((1, 2, 2))) + v.letters(string.digits, 7)
    ),
    "licence": lambda v: v.letters(string.ascii_uppercase, 1) + v.letters(string.digits, 8),
    "health": lambda v: v.letters(string.digits, 10),
    "vin": lambda v: v.fake().vin(),
    "email": lambda v: v.fake().ascii_email(),
    "phone": lambda v: v.fake().phone_number(),
    "birthday": _birthday,
    "ipv4": lambda v: (
        v.fake().ipv4_private() if v.random.random() < 0.5 else v.fake().ipv4_public()
    ),
    "ipv6": lambda v: v.fake().ipv6(),
    "mac": lambda v: v.fake().mac_address(),
    "host": _host,
    "path": _path,
    "secret_path": lambda v: v.random.choice(_SECRET_PATHS[v.split]),
    "key": _key,
    "jwt": _jwt,
    "password": _password,
    "pem": _pem,
    "connection": _connection,
    "wallet": lambda v: "0x" + v.letters(_HEX, 40),
    "generic_key": lambda v: v.letters(_ALNUM, 32),
}


_OF_SPLIT = {"fresh": fresh_values.MAKERS, "unseen": unseen_values.MAKERS}
KINDS = tuple(_MAKERS)
"""The kinds that `Values.make` supports."""
