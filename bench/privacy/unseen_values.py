"""Values of the split `unseen`: other locales, issuers, countries and makers of keys."""

from __future__ import annotations

import base64
import json
import string
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import fresh_values
import phonenumbers
from fresh_values import base58_check, formatted, iban_of, luhn
from phonenumbers import PhoneNumberFormat, PhoneNumberType
from unseen_documents import DOCUMENTS
from unseen_national_ids import Make, born

if TYPE_CHECKING:
    from identifier_values import Values

LOCALES = (
    "en_NG", "en_PK", "en_BD", "en_TH", "fr_CA", "ga_IE", "ha_NG", "ig_NG", "yo_NG", "zu_ZA",
    "fil_PH", "sw",
)  # fmt: skip
_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
# As the makers document them, for `formatted`.
_KEYS = (
    "glft-{u20}", "glimt-{u25}", "glagent-{u50}", "gloas-{h64}", "glsoat-{u20}", "shpca_{h32}",
    "dor_v1_{h64}", "xoxe.xoxp-1-{a163}", "xoxc-{d12}-{d12}-{d13}-{h64}",
    "xoxr-{d12}-{d12}-{a24}", "amzn.mws.{uuid}", "ABSKQmVkcm9ja0FQSUtleS1{b108}", "ABIA{C16}",
    "{a3}8Q~{u34}", "{a76}AZDO{a4}", "1//0{u100}", "glc_eyJ{b120}", "rnd_{a28}", "fo1_{u43}",
    "v1.0-{h24}-{h146}", "EZTK{a54}", "EAAM{a170}", "FLWSECK-{h32}-X", "pat.{a22}.{h24}.{a20}",
    "s-s4t2ud-{h64}", "cmVmdGtu{a56}", "mlsn.{h64}", "{h32}-{h8}-{h8}", "{a6}_{a29}_mmk",
    "sha256~{u43}", "pscale_pw_{u43}", "pscale_oauth_{u43}", "sqa_{h40}", "sb_secret_{u22}_{a8}",
    "hvr.{u90}", "AQVN{u36}", "y0_{u55}", "YCA{a38}", "tgp_v1_{u43}", "fw_{a24}", "sk-{h32}",
    "llx-{a48}", "pa-{u43}", "sk_{h48}", "BSA{u28}", "e2b_{h40}", "napi_{a64}",
    "signkey-prod-{h64}", "tr_prod_{a24}", "sk.eyJ1Ijoi{a62}.{u22}", "ATTA{h72}",
    "ATBB{a32}{h8}", "ops_eyJ{b240}", "0.{uuid}.{a30}:{b22}==", "MT{a24}.G{a5}.{u38}",
    "2/{d16}/{d16}:{h32}", "pk_{d8}_{C32}", "sl.{u136}", "api_org_{a34}", "sdk-{uuid}",
    "hcaik_01{l58}", "2{a26}_{a21}", "access_token$production${l16}${h32}", "SCW{C17}",
    "Mid-server-{u24}", "xnd_production_{a48}", "APP_USR-{d16}-{d6}-{h32}-{d9}",
    "pdl_live_apikey_01{l24}_{a22}_{a3}", "K005{b27}", "AAAAAAAAAAAAAAAAAAAAA{a84}",
    "https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{h32}/{uuid}",
    "AGE-SECRET-KEY-1QYZ", "dp.sa.{a43}", "bb_live_{u26}", "zpka_{h32}_{h8}",
    "sk_car_{a22}", "vercel_blob_rw_{a16}_{a30}", "sm_pat_{a16}",
)  # fmt: skip
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
# The begin, how long, how often among so many.
_CARDS = (
    ("4", 16, 12), ("51", 16, 3), ("52", 16, 3), ("53", 16, 3), ("5555", 16, 2), ("2305", 16, 1),
    ("2588", 16, 1), ("3714", 15, 2), ("3787", 15, 2), ("6440", 16, 1), ("6505", 16, 1),
    ("6221", 16, 2), ("8171", 16, 1), ("3566", 16, 1), ("3056", 14, 1), ("3852", 14, 1),
    ("6759", 16, 1), ("5018", 16, 1), ("6304", 19, 1), ("8220", 16, 1), ("2202", 16, 1),
    ("5067", 16, 1), ("6500", 16, 1), ("8600", 16, 1), ("9860", 16, 1), ("9704", 16, 1),
    ("5078", 16, 1), ("5061", 19, 1),
)  # fmt: skip
# Digits (d), capitals (L) or both (C), as SWIFT's registry lists them.
_IBANS = {
    "DE": "d18", "FR": "d10 C11 d2", "NL": "L4 d10", "ES": "d20", "IT": "L1 d10 C12",
    "PL": "d24", "GB": "L4 d14", "BE": "d12", "AT": "d16", "CH": "d5 C12", "SE": "d20",
    "PT": "d21", "IE": "L4 d14", "FI": "d14", "DK": "d14", "NO": "d11", "GR": "d7 C16",
    "CZ": "d20", "SK": "d20", "HU": "d24", "RO": "L4 C16", "BG": "L4 d6 C8", "HR": "d17",
    "SI": "d15", "EE": "d16", "LV": "L4 C13", "LT": "d16", "LU": "d3 C13", "MT": "L4 d5 C18",
    "MC": "d10 C11 d2", "SM": "L1 d10 C12", "LI": "d5 C12", "IS": "d22", "TR": "d6 C16",
    "UA": "d6 C19", "RS": "d18", "ME": "d18", "BA": "d16", "MK": "d3 C10 d2", "AL": "d8 C16",
    "XK": "d16", "MD": "C20", "GE": "L2 d16", "AZ": "L4 C20", "TN": "d20", "MU": "L4 d19 L3",
    "IL": "d19", "MR": "d23", "DJ": "d23", "SC": "L4 d20 L3", "ST": "d21", "TL": "d19",
    "LC": "L4 C24", "GL": "d14", "FO": "d14", "LY": "d21", "SD": "d14", "BI": "d23",
    "VA": "d18", "MN": "d16", "NI": "L4 d20", "FK": "L2 d12", "OM": "d3 C16", "SO": "d19",
    "YE": "L4 d4 C18", "BY": "C4 d4 C16", "HN": "L4 d20",
}  # fmt: skip
_COMMON_IBANS = 25  # this many of the countries above are used for half of the numbers
PHONE_REGIONS = (
    "US", "GB", "DE", "FR", "ES", "IT", "PT", "BR", "NL", "PL", "SE", "TR", "RU", "JP", "KR", "CN",
    "IN", "MX", "AT", "CH", "DK", "NO", "FI", "CZ", "UA", "RO", "GR", "IL", "ID", "TH", "VN", "PH",
    "TW", "AU", "NZ", "AR", "CL", "CO", "HU", "KE", "GH", "DZ", "HR", "BG", "IE", "CA", "BE", "JO",
)  # fmt: skip
_MONTHS = {
    "DE": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "FR": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "ES": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
    "IT": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
    "dicembre",
    "PT": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro "
    "dezembro",
    "NL": "januari februari maart april mei juni juli augustus september oktober november december",
    "PL": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października "
    "listopada grudnia",
    "TR": "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık",
    "RU": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "SV": "januari februari mars april maj juni juli augusti september oktober november december",
    "EN": "January February March April May June July August September October November December",
}
_DAYS = {
    "DE": ("{d}. {m} {y}", "{d}.{n}.{y}"),
    "ES": ("{d} de {m} de {y}", "{d}/{n}/{y}"),
    "PT": ("{d} de {m} de {y}", "{d}/{n}/{y}"),
    "PL": ("{d} {m} {y} r.", "{d}.{n}.{y}"),
    "RU": ("{d} {m} {y} г.", "{d} {m} {y} года"),
    "EN": ("{m} {d} {y}", "{d}-{m}-{y}", "{n}/{d}/{y}", "the {d}th of {m} {y}"),
    "JA": ("{y}年{n}月{d}日", "昭和{era}年{n}月{d}日"),
    "KO": ("{y}년 {n}월 {d}일", "{y}. {n}. {d}."),
    "ZH": ("{y}年{n}月{d}日", "{y}-{n}-{d}"),
}
_MAIL_HOSTS = (
    "outlook.com", "icloud.com", "gmx.at", "t-online.de", "orange.fr", "laposte.net", "libero.it",
    "wp.pl", "uol.com.br", "yandex.ru", "163.com", "seznam.cz", "telia.com", "bigpond.com",
    "rediffmail.com", "ukr.net", "docomo.ne.jp", "nhs.net", "student.uva.nl", "mynet.com",
    "stadt-koeln.de", "ext.acme.io", "mail.dev", "gov.ph", "fastmail.fm", "hey.com", "me.com",
)  # fmt: skip
_SECRET_PATHS = (
    "~/.config/gcloud/application_default_credentials.json", "~/.azure/accessTokens.json",
    "~/.terraform.d/credentials.tfrc.json", "/etc/ssl/private/site.key", "~/.ssh/id_ed25519_sk",
    "ops/kubeconfig.yaml", "~/.s3cfg", "~/.password-store/bank.gpg", "/etc/ipsec.secrets",
    "blog/wp-config.php", "~/.cargo/credentials.toml", "/run/secrets/db_password", "api/.dev.vars",
    "api/.env.prod", "/etc/ssh/ssh_host_ed25519_key", "Bitwarden_export.json", "~/.npmrc",
    "Default/Login Data", "ios/apns-signing.p12", "~/.gem/credentials", "/etc/krb5.keytab",
)  # fmt: skip
_CONNECTIONS = {
    "spring": "jdbc:postgresql://{host}:5432/crm?user={name}&password={word}",
    "java": "jdbc:mysql://{name}:{word}@{host}/shop",
    "camera": "rtsp://admin:{word}@{ip}:554/stream1",
    "proxy": "socks5h://{name}:{word}@{host}:1080",
    "oracle": "oracle+oracledb://{name}:{word}@{host}:1521/ORCL",
    "snowflake": "snowflake://{name}:{word}@ab12345.eu-west-1/DB",
    "redis": "redis://:{word}@{ip}:6379/0",
    "rails": "mysql2://{name}:{word}@{host}/app_production?pool=5",
    "git": "https://{name}:{word}@git.{host}/team/app.git",
    "windows": "sqlserver://{name}:{word}@{host}?database=erp",
    "share": "smb://{name}:{word}@{ip}/backup",
    "couch": "couchdb://{name}:{word}@{ip}:5984/docs",
}
_WORDS = (
    "Sommer", "tiger", "Bella", "dragon", "Madrid", "chocolat", "kaffe", "sunshine", "Liverpool",
    "krokodil", "matrix", "Barcelona", "pudding", "wisla", "horse", "battery", "Lisboa",
)  # fmt: skip
_ROLES = ("sql", "web", "dc", "k8s-master", "artifactory", "sap", "print", "vcenter", "zabbix")
_ENDS = ("intra", "corp", "internal", "local", "lan", "prod.svc.cluster.local", "home.arpa")


def _card(values: Values, issuer: str = "") -> str:
    cards = [card for card in _CARDS if card[0].startswith(issuer)]
    begin, length, _ = values.random.choices(cards, [often for _, _, often in cards])[0]
    digits = begin + values.letters(string.digits, length - len(begin) - 1)
    digits += luhn(digits)
    gap = values.random.choice(("", "", " ", " ", " ", "-", "\u00a0", "  "))
    if length in (14, 15):
        return gap.join((digits[:4], digits[4:10], digits[10:]))
    return gap.join(digits[place : place + 4] for place in range(0, length, 4))


def _iban(values: Values) -> str:
    countries = list(_IBANS)
    if values.random.random() < 0.5:
        countries = countries[:_COMMON_IBANS]
    country = values.random.choice(countries)
    return iban_of(values, country, _IBANS[country])


def _key(values: Values) -> str:
    form = values.random.choice(_KEYS)
    if form.startswith("AGE-"):  # its letters are those of bech32
        return form + values.letters(_BECH32.upper(), 55)
    return formatted(values, form)


def _phone(values: Values, region: str = "") -> str:
    """A valid number of a mobile or at home, as it is written at home or for others."""
    sorts = (PhoneNumberType.MOBILE, PhoneNumberType.MOBILE, PhoneNumberType.FIXED_LINE)
    region = region or values.random.choice(PHONE_REGIONS)
    while True:
        number = phonenumbers.example_number_for_type(region, values.random.choice(sorts))
        if number is None or number.national_number is None:
            continue
        length = len(digits := str(number.national_number))
        kept = values.random.randrange(2, 4)
        number.national_number = int(digits[:kept] + values.letters(string.digits, length - kept))
        if phonenumbers.is_valid_number_for_region(number, region):
            return _as_written(values, number)


def _as_written(values: Values, number: phonenumbers.PhoneNumber) -> str:
    forms = PhoneNumberFormat
    at_home = phonenumbers.format_number(number, forms.NATIONAL)
    abroad = phonenumbers.format_number(number, forms.INTERNATIONAL)
    code, _, rest = abroad.partition(" ")
    return values.random.choice(
        (
            at_home,
            at_home,
            at_home.replace(" ", "-"),
            at_home.replace(" ", ""),
            abroad,
            abroad,
            phonenumbers.format_number(number, forms.E164),
            f"({code}) {rest}",
            f"{code} (0){rest}" if at_home.startswith("0") else abroad,
        )
    )


def _birthday(values: Values, language: str = "") -> str:
    day = born(values)
    if not language:
        forms = ("%Y-%m-%d", "%d/%m/%Y", "%m-%d-%Y", "%Y%m%d", "%d.%m.%Y", "%d-%b-%Y", "%d/%m/%y")
        return day.strftime(values.random.choice(forms))
    form = values.random.choice(_DAYS.get(language, ("{d} {m} {y}", "{d}/{n}/{y}")))
    if "{era}" in form:
        day = date(values.random.randrange(1950, 1988), day.month, min(day.day, 28))
    if "{d}th" in form:
        day = day.replace(day=values.random.randrange(4, 20))
    months = _MONTHS.get(language, " " * 11).split(" ")
    return form.format(
        d=day.day, n=day.month, y=day.year, m=months[day.month - 1], era=day.year - 1925
    )


def _name(values: Values) -> str:
    """As a login: in small letters."""
    return values.fake().user_name().replace(".", "")


def _email(values: Values) -> str:
    first, last = values.fake().user_name(), values.fake().domain_word()
    forms = ("{f}.{l}", "{f}", "{f}{n}", "{i}.{l}", "{l}.{i}", "{f}+shop", "{f}_{n}", "{F}.{L}")
    name = values.random.choice(forms).format(
        f=first, l=last, i=first[0], n=values.random.randrange(1950, 2010), F=first.title(),
        L=last.title(),
    )  # fmt: skip
    host = values.random.choice((*_MAIL_HOSTS, f"{last}.com", f"{last}-{first}.co.uk"))
    return f"{name}@{host}"


def bech32(values: Values) -> str:
    """An address of Bitcoin that pays to a witness's key hash, after BIP 173."""
    data = [0, *(values.random.randrange(32) for _ in range(32))]
    check = 1
    for value in [3, 3, 0, 2, 3, *data, *[0] * 6]:
        top, check = check >> 25, (check & 0x1FFFFFF) << 5 ^ value
        for place, part in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= part * (top >> place & 1)
    signs = [(check ^ 1) >> 5 * (5 - place) & 31 for place in range(6)]
    return "bc1" + "".join(_BECH32[value] for value in [*data, *signs])


def _pem(values: Values) -> str:
    name, begin = values.random.choice(
        (
            ("OPENSSH PRIVATE KEY", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAA"),
            ("EC PRIVATE KEY", "MHcCAQEEI"),
            ("PRIVATE KEY", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"),
            ("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0F3A66B1C2\n\n"),
            ("PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\nlQOYBF"),
        )
    )
    text = begin + values.letters(_ALNUM + "+/", 64 - len(begin) % 64)
    text += "".join("\n" + values.letters(_ALNUM + "+/", 64) for _ in range(8))
    return f"-----BEGIN {name}-----\n{text}=\n-----END {name}-----"


def _jwt(values: Values) -> str:
    head = {"alg": "RS256", "kid": values.letters(_HEX, 8), "typ": "JWT"}
    body = {"iss": "https://login.acme.io/", "sub": values.letters(_HEX, 12), "exp": 1767225600}
    parts = (json.dumps(head).encode(), json.dumps(body).encode(), values.random.randbytes(256))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def _password(values: Values) -> str:
    word, other = values.random.choice(_WORDS), values.random.choice(_WORDS).lower()
    number = values.random.randrange(10, 2030)
    forms = (
        f"{word}{number}!", f"{word}-{other}-{number}", f"{number}{word.upper()}{other}",
        word.replace("a", "@").replace("o", "0") + f"#{number}x",
        values.letters(_ALNUM + "!#*+=_?^~.-", 15) + "k", values.letters(string.ascii_letters, 12),
    )  # fmt: skip
    return values.random.choice(forms)


def _connection(values: Values, of: str = "") -> str:
    form = _CONNECTIONS[of or values.random.choice(list(_CONNECTIONS))]
    word = values.letters(_ALNUM, values.random.randrange(8, 20))
    host = f"{values.random.choice(_ROLES)}.acme.io"
    return form.format(host=host, name=_name(values), word=word, ip=values.fake().ipv4_private())


def _path(values: Values) -> str:
    forms = (
        "/home/{n}/Steuer/{y}/bescheid.pdf", "C:\\Users\\{n}\\OneDrive\\CV {y}.docx",
        "/Users/{n}/Library/Application Support/Notes/{y}.sqlite", "/home/{n}/src/app/main.py",
        "\\\\nas01\\homes\\{n}\\scan{y}.tif", "C:\\Users\\{n}\\AppData\\Local\\Temp\\{y}.tmp",
        "/export/home/{n}/thesis/chapter{y}.tex", "/Users/{n}/Downloads/payslip-{y}.pdf",
    )  # fmt: skip
    year = values.random.randrange(1998, 2026)
    return values.random.choice(forms).format(n=_name(values), y=year)


def _basic(values: Values) -> str:
    return base64.b64encode(f"{_name(values)}:{_password(values)}".encode()).decode()


_ADDRESSES = ("2001:16b8:{h4}:{h2}00::{h1}1", "2a02:8108:{h3}1::{h2}:1", "fd00::{h4}:{h4}")
_GENERIC = ("{h40}", "{b43}=", "{uuid}", "{C32}", "{a24}", "{u64}", "{h48}")
_HASHES = (
    "$argon2id$v=19$m=65536,t=3,p=4${b22}${b43}", "$6${a16}${a86}", "$2y$10${a53}",
    "pbkdf2_sha256$600000${a22}${b43}=", "{{SSHA}}{b40}", "scrypt:32768:8:1${a16}${h128}",
)  # fmt: skip
MAKERS: dict[str, Make] = {
    **fresh_values.MAKERS,
    **DOCUMENTS,
    **{f"phone:{region}": partial(_phone, region=region) for region in PHONE_REGIONS},
    **{f"connection:{of}": partial(_connection, of=of) for of in _CONNECTIONS},
    **{f"birthday:{one}": partial(_birthday, language=one) for one in (*_MONTHS, *_DAYS)},
    "card": _card,
    "card:Visa": partial(_card, issuer="4"),
    "card:Amex": partial(_card, issuer="37"),
    "cvv": lambda v: v.letters(string.digits, 4 if v.random.random() < 0.1 else 3),
    "iban": _iban,
    "key": _key,
    "phone": _phone,
    "birthday": _birthday,
    "email": _email,
    "wallet": lambda v: v.random.choice(
        (
            "0x" + v.letters(_HEX, 40),
            base58_check(b"\x41" + v.random.randbytes(20)),
            base58_check(b"\x30" + v.random.randbytes(20)),
        )
    ),
    "bitcoin": bech32,
    "pem": _pem,
    "jwt": _jwt,
    "password": _password,
    "password_hash": lambda v: formatted(v, v.random.choice(_HASHES)),
    "basic_auth": _basic,
    "connection": _connection,
    "path": _path,
    "secret_path": lambda v: v.random.choice(_SECRET_PATHS),
    "generic_key": lambda v: formatted(v, v.random.choice(_GENERIC)),
    "host": lambda v: (
        f"{v.letters('abcdefghklm', 3)}-{v.random.choice(_ROLES)}"
        f"{v.random.randrange(1, 30):02d}.{v.random.choice(_ENDS)}"
    ),
    "ipv6": lambda v: formatted(v, v.random.choice(_ADDRESSES)),
}
"""By kind, or by `kind:region`."""
