"""Identifiers that the structured detectors find, and text that only looks similar."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, TextPart
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, structured_detectors

SCANNER = Scanner(structured_detectors(OwnWords()))


def kinds(text: str) -> set[tuple[FindingKind, str]]:
    found = SCANNER.scan([TextPart("messages[0].content", text)])
    return {(finding.kind, text[finding.start : finding.end]) for finding in found}


FOUND: list[tuple[FindingKind, str, str]] = [
    (FindingKind.CARD, "4539578763621486", "card 4539578763621486 please"),
    (FindingKind.CARD, "3745 271809 36411", "Amex 3745 271809 36411"),
    (FindingKind.CARD, "5425-2334-3010-9911", "(5425-2334-3010-9911)"),
    (FindingKind.CARD, "4539 5787 6362 1486", "4539 5787 6362 1486 12/29 123"),
    (FindingKind.CARD, "6362970000457013", "6362970000457013"),
    (FindingKind.CARD, "123", "exp 12/29, CVV: 123"),
    (FindingKind.IBAN, "DE89370400440532013000", "pay DE89370400440532013000 today"),
    (FindingKind.IBAN, "GB82 WEST 1234 5698 7654 32", "GB82 WEST 1234 5698 7654 32 is mine"),
    (FindingKind.BANK_ACCOUNT, "12-34-56", "sort code 12-34-56"),
    (FindingKind.BANK_ACCOUNT, "31926819", "account number: 31926819"),
    (
        FindingKind.BANK_ACCOUNT,
        "89235504440",
        "sort code 61-93-34, account 89235504440, that is all",
    ),
    (FindingKind.BANK_ACCOUNT, "53260459", "account 53260459 at 20-17-84"),
    (FindingKind.BANK_ACCOUNT, "021000021", "routing number 021000021"),
    (FindingKind.NATIONAL_ID, "536-90-4399", "it is 536-90-4399."),
    (FindingKind.NATIONAL_ID, "AB123456C", "AB123456C"),
    (FindingKind.NATIONAL_ID, "12345678Z", "El DNI 12345678Z"),
    (FindingKind.NATIONAL_ID, "X1234567L", "NIE X1234567L"),
    (FindingKind.NATIONAL_ID, "RSSMRA85T10A562S", "RSSMRA85T10A562S"),
    (FindingKind.NATIONAL_ID, "529.982.247-25", "529.982.247-25"),
    (FindingKind.NATIONAL_ID, "756.9217.0769.85", "AHV 756.9217.0769.85"),
    (FindingKind.NATIONAL_ID, "111222333", "BSN 111222333"),
    (FindingKind.NATIONAL_ID, "44051401359", "PESEL: 44051401359"),
    (FindingKind.NATIONAL_ID, "811218-9876", "personnummer 811218-9876"),
    (FindingKind.NATIONAL_ID, "131052-308T", "131052-308T"),
    (FindingKind.NATIONAL_ID, "11010519491231002X", "身份证11010519491231002X"),
    (FindingKind.NATIONAL_ID, "255081416802538", "255081416802538"),
    (FindingKind.NATIONAL_ID, "L01X00T471", "Personalausweis L01X00T471"),
    (FindingKind.NATIONAL_ID, "784-1953-5480979-0", "784-1953-5480979-0"),
    (FindingKind.NATIONAL_ID, "59773-2542643-9", "CNIC: 59773-2542643-9"),
    (FindingKind.NATIONAL_ID, "048-5533172-6", "048-5533172-6"),
    (FindingKind.NATIONAL_ID, "7202038187089", "my South African ID 7202038187089"),
    (FindingKind.NATIONAL_ID, "1019426525", "Nomor identitas saya 1019426525"),
    (FindingKind.NATIONAL_ID, "3994233518", "رقم الهوية 3994233518"),
    (FindingKind.TAX_ID, "86095742719", "Steuer-ID 86095742719"),
    (FindingKind.TAX_ID, "11.222.333/0001-81", "CNPJ 11.222.333/0001-81"),
    (FindingKind.TAX_ID, "ABCPE1234F", "ABCPE1234F"),
    (FindingKind.PASSPORT, "C01X00T47", "Reisepass: C01X00T47"),
    (FindingKind.PASSPORT, "533380006", "my passport number is 533380006"),
    (FindingKind.DRIVING_LICENCE, "MORGA657054SM9IJ", "driving licence MORGA657054SM9IJ"),
    (FindingKind.HEALTH_ID, "943 476 5919", "NHS number 943 476 5919"),
    (FindingKind.VEHICLE, "1M8GDM9AXKP042788", "1M8GDM9AXKP042788"),
    (FindingKind.VEHICLE, "AD19 DGG", "number plate AD19 DGG got a ticket"),
    (FindingKind.VEHICLE, "B-MW 1234", "Kennzeichen B-MW 1234"),
    (FindingKind.DATE_OF_BIRTH, "12.03.1985", "geboren am 12.03.1985 in Köln"),
    (FindingKind.DATE_OF_BIRTH, "March 5, 1990", "Date of birth: March 5, 1990"),
    (FindingKind.DATE_OF_BIRTH, "1990-03-05", '"dob": "1990-03-05"'),
    (FindingKind.EMAIL, "jo.doe+x@mail.example.co.uk", "write jo.doe+x@mail.example.co.uk."),
    (FindingKind.EMAIL, "jane dot doe at fabrikam dot com", "is jane dot doe at fabrikam dot com"),
    (FindingKind.EMAIL, "jane [at] fabrikam [dot] org", "mail jane [at] fabrikam [dot] org"),
    (FindingKind.EMAIL, "jane AT sub DOT gov DOT sg", "jane AT sub DOT gov DOT sg ok"),
    (FindingKind.EMAIL, "jane[at]uni-tartu[dot]ee", "jane[at]uni-tartu[dot]ee"),
    (FindingKind.PHONE, "+49 30 901820", "+49 30 901820"),
    (FindingKind.PHONE, "+212650131834", "x5,+212650131834,21.08.74"),
    (FindingKind.PHONE, "(212) 555-0187", "(212) 555-0187"),
    (FindingKind.PHONE, "01 42 68 53 00", "01 42 68 53 00"),
    (FindingKind.PHONE, "5551234567", "call me on 5551234567"),
    (FindingKind.IP_ADDRESS, "192.168.178.20", "ping 192.168.178.20"),
    (FindingKind.IP_ADDRESS, "2a01:4f8:85a3::8a2e:370:7334", "2a01:4f8:85a3::8a2e:370:7334"),
    (FindingKind.MAC_ADDRESS, "00:1B:44:11:3A:B7", "MAC 00:1B:44:11:3A:B7"),
    (FindingKind.MAC_ADDRESS, "02f7.cb13.c48b", "dhcp: lease for 02f7.cb13.c48b"),
    (FindingKind.INTERNAL_HOST, "crm.x7k2p.mongodb.net", "no reply from crm.x7k2p.mongodb.net"),
    (
        FindingKind.INTERNAL_HOST,
        "brill-hr.atlassian.net",
        "see https://brill-hr.atlassian.net/wiki",
    ),
    (FindingKind.INTERNAL_HOST, "db-1.corp", "db-1.corp is down"),
    (FindingKind.INTERNAL_HOST, "build-7.prod.internal", "ssh build-7.prod.internal"),
    (FindingKind.INTERNAL_HOST, "jenkins", "http://jenkins:8080/job"),
    (FindingKind.FILE_PATH, "/home/marie/taxes/2023.pdf", "open /home/marie/taxes/2023.pdf"),
    (FindingKind.FILE_PATH, r"C:\Users\Marie\cv.docx", r"see C:\Users\Marie\cv.docx"),
    (FindingKind.SECRET_PATH, "~/.ssh/id_ed25519", "cat ~/.ssh/id_ed25519"),
    (FindingKind.FILE_PATH, "/mnt/c/Users/marie/cv.docx", "open /mnt/c/Users/marie/cv.docx"),
    (FindingKind.SECRET_PATH, "/srv/shop/.env", "cat /srv/shop/.env"),
    (FindingKind.SECRET_PATH, "/etc/wireguard/wg0.conf", "cat /etc/wireguard/wg0.conf"),
    (FindingKind.SECRET_PATH, "AuthKey_7KD92LQ4XR.p8", "who may read AuthKey_7KD92LQ4XR.p8"),
    (FindingKind.SECRET_PATH, "config/master.key", "git rm config/master.key"),
    (FindingKind.SECRET_PATH, "/srv/app/.aws/credentials", "/srv/app/.aws/credentials"),
    (FindingKind.MARKED_PRIVATE, "Please do not share this", "Please do not share this."),
    (FindingKind.MARKED_PRIVATE, "Bitte bleib lokal", "Bitte bleib lokal"),
    (FindingKind.CONFIDENTIAL, "vertraulich", "streng vertraulich"),
    (FindingKind.PASSWORD, "hunter2", "export DB_PASSWORD=hunter2"),
    (FindingKind.PASSWORD, "Tr0ub4dor&3", "my password is Tr0ub4dor&3."),
    (FindingKind.PASSWORD, "Shaw-9863", "<password>Shaw-9863</password>"),
    (FindingKind.PASSWORD, "4921", "my PIN is 4921"),
    (
        FindingKind.API_KEY,
        "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c",
        "secret: 9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c",
    ),
    (
        FindingKind.API_KEY,
        "waka_784eed57-e142-45c6-aab8-c4ad14ddb47c",
        "still valid? waka_784eed57-e142-45c6-aab8-c4ad14ddb47c",
    ),
    (FindingKind.TOKEN, "ghp_" + "a1B2" * 9, "token ghp_" + "a1B2" * 9),
    (FindingKind.API_KEY, "apify_api_" + "a1B2" * 9, "apify_api_" + "a1B2" * 9),
    (FindingKind.COOKIE, "sid=abc123def456; theme=dark", "Cookie: sid=abc123def456; theme=dark"),
    (FindingKind.PASSWORD, "13.05.87", "password: 13.05.87"),
    (
        FindingKind.CONNECTION_STRING,
        "postgres://bob:s3cret@db:5432/app",
        "DSN postgres://bob:s3cret@db:5432/app",
    ),
    (
        FindingKind.CONNECTION_STRING,
        "postgres://example_app:Hund3Katze9@db:5432/app",
        "DSN postgres://example_app:Hund3Katze9@db:5432/app",
    ),
    (
        FindingKind.CONNECTION_STRING,
        "mysql://$DB_USER:Hund3Katze9@db/app",
        "DSN mysql://$DB_USER:Hund3Katze9@db/app",
    ),
    (
        FindingKind.CONNECTION_STRING,
        "jdbc:mysql://db/app?user=bob&password=hunter2x",
        "url=jdbc:mysql://db/app?user=bob&password=hunter2x",
    ),
    (
        FindingKind.PASSWORD,
        "https://shop.example/?user=bob&password=hunter2x",
        "open https://shop.example/?user=bob&password=hunter2x",
    ),
    (
        FindingKind.WALLET,
        "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
        "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    ),
    (
        FindingKind.WALLET,
        "legal winner thank year wave sausage worth useful legal winner thank yellow",
        "seed phrase: legal winner thank year wave sausage worth useful legal winner thank yellow",
    ),
    (
        FindingKind.WALLET,
        "legal winner thank year wave sausage worth useful legal winner thank yellow",
        "my bitcoin wallet:\n"
        "legal winner thank year wave sausage worth useful legal winner thank yellow\n",
    ),
]


@pytest.mark.parametrize(("kind", "span", "text"), FOUND, ids=[f"{k}-{s}" for k, s, _ in FOUND])
def test_identifier_is_found(kind: FindingKind, span: str, text: str) -> None:
    assert (kind, span) in kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "Order 4111111111111112 has shipped",
        "the account of the bank's founder covers 1907 to 1932",
        "Chrome/43.0.163.4 on Windows 10.0.19045.597",
        "ISBN-10 0-454-51378-X, 53nd edition, hardback, 1531 pages",
        "EAN 0095353366972 is a box of 21 pencils",
        "ISBN 978-3-16-148410-0",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "commit 5d41402abc4b2a76b9719d911017c592",
        "It takes 1234567890 steps, or 3.14159265358979 at most.",
        "version 10.15.7.2 and v1.2.3.4",
        "127.0.0.1:8080 and 0.0.0.0",
        "chrome://version says 120",
        "git clone git@github.com:pallets/flask.git",
        "assets/icon@2x.png",
        '<a class="password">Forgot</a>',
        "4 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 2",
        "at 12:34:56 the ratio was 16:9:4",
        "550e8400-e29b-41d4-a716-446655440000",
        "2024-05-17T10:22:33Z worker 1715941353123 finished in 0.0021 s",
        "lat 52.520008, lon 13.404954",
        "def login(password: str, token: str | None = None) -> None:",
        'password = os.environ["DB_PASSWORD"]',
        "max_tokens=4096, pad_token_id: 50256",
        "The password is needed to log in; reset your password: click here",
        "Sum the numbers 1234 5678 9012 3456 and 7890.",
        "Natalia sold 48 clips in April and half as many in May.",
        "Einstein was born on 14 March 1879.",
        "Meet me at example.com tomorrow",
        "import threading; x = threading.local()",
        "event.key == 'Enter' and process.env.HOME",
        "Copy .env.example first",
        "put it into a .env file, not into key.pem or ~/../path/to",
        "msg = fetch(n, '(RFC822.SIZE)') # RFC 5322 3.6.1",
        "route 100.64.0.0/10 via the shared space",
        '"198.18.0.0/15", # RFC 2544\n"172.16.0.0/12", # RFC 1918 - private',
        "from hypothesis.internal.conjecture import data",
        "charset=ISO8859-1 or iso-8859-15",
        "value = password.encode('utf-8') or token.encode()",
        "CVE-2024-33601 and CVE-2022-27781 are fixed for the tax office",
        "version 5.4.3.1, OID 2.5.29.14, http://tools.ietf.org/html/rfc5280#section-4.2.1.3",
        "sin(pi*Rational(2, 13)) + Rational(383693479, 125128080)",
        "M11.013 1.427a1.75 1.75 0 012.474 0l1.086 1.086a1.75 1.75 0 010 2.474",
        "51 Franklin St, Fifth Floor, Boston, MA 02110-1301 USA",
        "File '/home/user/repro.py' in gs://bucket/file or file://path/x",
        "ftp proto://username:password@hostname.com",
        "the health check of node 2422020029 takes 5 s",
        "for internal_use in names: _internal.docstrings.models",
        "write good code that runs very fast under heavy load without crashing today\nthanks",
        "rgb(255, 255, 255) #ff00aa 1920x1080",
        "$12,345,678.90 in 1999-2004",
        "@posix\n@pytest.mark.skipif(os.name == 'nt', reason='no sockets')",
        "for one in (self.tcp, self.lan): print(one)",
        "self._passphrase = passphrase",
        'tokens: list[Token] = node.children[0].meta.get("inline1234567890abcdef")',
        "secret = base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()",
        "the call takes 12.3456 s (arXiv 2309.00071)",
        "it stays on this machine",
        "SELECT * FROM orders WHERE id = 763862134 LIMIT 26;",
        "tracking 1Z1100C1189702956",
        "PR 185 touches 797 lines (+185 -9)",
        "00000000-0000-0000-0000-000000000000",
        "1170 1350 1170 1890 2790 1890 2790 2070 3240 1620 2790 1170 2790 1350 1170 1350",
        ".highlight .cpf { color: #408090; font-style: italic }",
        '"avatar": "https://files.acme.com/avatars/000/272/619/original/573669a3.jpe"',
        '"in_reply_to_account_id": "112658193342215767"',
        "part-01091. blk_-4468645577339843974 terminating",
    ],
)
def test_similar_text_is_not_found(text: str) -> None:
    assert kinds(text) == set()


def test_international_telephone_is_no_national_id() -> None:
    number = "47 412 08 336"
    assert kinds(f"My number is +{number}.") == {(FindingKind.PHONE, f"+{number}")}
    assert (FindingKind.NATIONAL_ID, number) in kinds(f"My number is {number}.")
