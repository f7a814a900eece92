"""The chat's scanner for personal data and secrets."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ingle.tui.privacy.pii_scanner import PrivateSpan, scan, summarize

pytestmark = pytest.mark.quick

KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ
-----END OPENSSH PRIVATE KEY-----"""
TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def _found(text: str) -> list[tuple[str, str]]:
    return [(finding.kind, text[finding.start : finding.end]) for finding in scan(text)]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("Write to max.muster+x@post.example.org, please.", "e-mail", None),
        ("Pay to DE89 3704 0044 0532 0130 00 now", "IBAN", "DE89 3704 0044 0532 0130 00"),
        ("GB82WEST12345698765432", "IBAN", "GB82WEST12345698765432"),
        ("card 4111 1111 1111 1111.", "card number", "4111 1111 1111 1111"),
        ("3782-822463-10005 is an old one", "card number", "3782-822463-10005"),
        ("My passport is C01X00T47, valid", "ID number", "C01X00T47"),
        ("passport number: 123456789", "ID number", "123456789"),
        ("Personalausweis Nr. L01X00T471", "ID number", "L01X00T471"),
        ("SSN 536-90-4399", "ID number", "536-90-4399"),
        ("Call +49 30 901820-0 or write", "phone", None),
        ("(212) 555-0147", "phone", "(212) 555-0147"),
        ("my phone number is 0171 2345678", "phone", "0171 2345678"),
        ("Tel.: 030/1234567", "phone", "030/1234567"),
        ("born on 12 March 1980 in Rome", "date of birth", "12 March 1980"),
        ("DOB: 1980-03-12", "date of birth", "1980-03-12"),
        ("geboren am 12.03.1980", "date of birth", "12.03.1980"),
        ("ssh root@195.20.113.9", "IP address", "195.20.113.9"),
        ("ping 2a01:4f8::8a2e:370:7334", "IP address", "2a01:4f8::8a2e:370:7334"),
        ("I live at 221 Baker Street in London", "address", "221 Baker Street"),
        ("Hauptstraße 12a, Berlin", "address", "Hauptstraße 12a"),
        ("12 rue de Rivoli, Paris", "address", None),
        (f"token {TOKEN}", "secret", TOKEN),
        ("AKIAIOSFODNN7EXAMPLE", "secret", "AKIAIOSFODNN7EXAMPLE"),
        ("password: hunter2", "secret", "hunter2"),
        ("the password is Tr0ub4dor.", "secret", "Tr0ub4dor"),
        ("postgres://app:s3cret!@db/prod", "secret", "s3cret!"),
        ("Authorization: Bearer abcdefghijklmnopqrstuvwxyz", "secret", None),
        (KEY, "private key", KEY),
    ],
)
def test_sensitive_values_are_found(text: str, kind: str, value: str | None) -> None:
    found = _found(text)
    assert [name for name, _ in found] == [kind]
    if value is not None:
        assert found[0][1] == value


@pytest.mark.parametrize(
    "text",
    [
        "On 2024-05-12 at 12:34:56, or 12.05.2024, or 05/12/2024 10:30",
        "Python 3.11.9, Textual 8.2.8, driver v550.54.15.0, version 1.2.3.4",
        "ISBN 978-0-306-40615-7 and 0-306-40615-2",
        "It costs 1,299.99 EUR or 1 234 567 yen, 4 120/16 384 tokens",
        "pi is 3.14159265358979323846, and 6.02214076e23",
        "4111 1111 1111 1112 has a wrong check digit",
        "DE89 3704 0044 0532 0130 01 has a wrong one, too",
        "the commit 9a0288a3b1c44de19a0288a3b1c44de19a0288a3",
        "id 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "git clone git@github.com:someone/something.git",
        "localhost is 127.0.0.1, 0.0.0.0 and ::1",
        "the ratio is 16:9:4 and the time 10:20:30:40",
        "We need a password to log in; the token count is high.",
        "password=os.environ['PASSWORD'], api_key=None, token: str",
        "The passport office is closed; our passports expire in 2031.",
        "She was born in 1980. The telephone was patented in 1876.",
        "for i in range(1000000000): x[i] = 0xDEADBEEF",
        "3 Big Dogs went Way up; 10 Downing was not named",
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        "1700000000 and 1700000000000 are moments",
        "rgb(12, 34, 56) #a1b2c3 192px",
        "decorator @app.route and user@host",
        "",
    ],
)
def test_harmless_text_has_no_findings(text: str) -> None:
    assert _found(text) == []


def test_findings_are_ordered_and_do_not_overlap() -> None:
    text = f"IBAN DE89370400440532013000, a@b.example.org, {TOKEN} and a@b.example.org"
    findings = scan(text)
    assert [finding.kind for finding in findings] == ["IBAN", "e-mail", "secret", "e-mail"]
    assert all(a.end <= b.start for a, b in pairwise(findings))


def test_long_text_is_scanned_completely() -> None:
    """Including findings across the boundary of two chunks."""
    filler = "x " * 8180  # the next one crosses the 16,384th character
    text = (filler + "somebody@mail.example.org ") * 3
    found = _found(text)
    assert found == [("e-mail", "somebody@mail.example.org")] * 3


def test_private_key_across_chunks_is_found_whole() -> None:
    text = "x" * 16_350 + "\n" + KEY.replace("b3", "b3" * 2000)
    assert [finding.kind for finding in scan(text)] == ["private key"]
    assert scan(text)[0].end == len(text)


def test_private_key_without_end_marker_extends_to_the_end() -> None:
    text = "one -----BEGIN PRIVATE KEY----- two -----BEGIN RSA PRIVATE KEY----- three"
    assert scan(text) == [PrivateSpan(4, len(text), "private key")]


def test_summary_counts_and_lists_the_most_severe_first() -> None:
    text = f"a@b.example.org c@d.example.org {KEY} Hauptstraße 1 Hauptstraße 2"
    assert summarize(scan(text)) == "private key, 2 e-mails, 2 addresses"
    assert summarize([]) == ""
