"""Text views: obfuscated text is decoded, and positions map back to the original."""

from __future__ import annotations

import base64
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.routing.detectors.finding import FindingKind, TextPart
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, structured_detectors
from ingle.daemon.routing.views.text_views import View, views

SCANNER = Scanner(structured_detectors(OwnWords()))
CARD, MAIL = "4539578763621486", "jane.doe@fabrikam.com"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


HIDDEN: dict[str, tuple[FindingKind, str]] = {
    "zero width": (FindingKind.CARD, "\u200b".join(CARD)),
    "soft hyphen": (FindingKind.EMAIL, "\u00ad".join(MAIL)),
    "bidi": (FindingKind.CARD, "\u202e" + CARD + "\u202c"),
    "full width": (FindingKind.CARD, "".join(chr(ord(c) + 0xFEE0) for c in CARD)),
    "mathematical": (FindingKind.CARD, "".join(chr(0x1D7CE + int(c)) for c in CARD)),
    "arabic digits": (FindingKind.CARD, "".join(chr(0x660 + int(c)) for c in CARD)),
    "keycaps": (FindingKind.CARD, "".join(c + "\ufe0f\u20e3" for c in CARD)),
    "struck through": (FindingKind.CARD, "\u0336".join(CARD)),
    "invisible tags": (FindingKind.EMAIL, "".join(chr(0xE0000 + ord(c)) for c in MAIL)),
    "lookalikes": (FindingKind.EMAIL, "jаnе.dое@fаbrікаm.com"),
    "nul": (FindingKind.CARD, "4539\x005787\x006362\x001486"),
    "base64": (FindingKind.EMAIL, b64(MAIL)),
    "base64 twice": (FindingKind.EMAIL, b64(b64("write to " + MAIL))),
    "base64 in lines": (FindingKind.EMAIL, base64.encodebytes((f"{MAIL} " * 9).encode()).decode()),
    "base64 of gzip": (FindingKind.CARD, base64.b64encode(gzip.compress(CARD.encode())).decode()),
    "base64 of utf-16": (FindingKind.EMAIL, base64.b64encode(MAIL.encode("utf-16-le")).decode()),
    "hexadecimal": (FindingKind.EMAIL, MAIL.encode().hex()),
    "percent encoding": (FindingKind.EMAIL, "".join(f"%{ord(c):02X}" for c in MAIL)),
    "HTML entities": (FindingKind.EMAIL, MAIL.replace("@", "&#64;").replace(".", "&period;")),
    "unicode escapes": (FindingKind.CARD, "".join(f"\\u00{ord(c):02x}" for c in CARD)),
    "quoted printable": (FindingKind.EMAIL, MAIL.replace("@", "=40").replace(".", "=2E")),
    "percent u": (FindingKind.EMAIL, "".join(f"%u{ord(c):04x}" for c in MAIL)),
    "hexadecimal of utf-16": (FindingKind.EMAIL, MAIL.encode("utf-16-be").hex()),
    "data URL": (FindingKind.CARD, "data:text/plain;base64," + b64("4539 5787 6362 1486")),
    "base64 with no-break spaces": (FindingKind.CARD, b64("4539\xa05787\xa06362\xa01486")),
    "MIME encoded word": (FindingKind.CARD, "=?utf-8?Q?4539_5787=206362_1486?="),
}


@pytest.mark.parametrize("encoding", HIDDEN)
def test_obfuscated_values_are_found_at_their_position(encoding: str) -> None:
    kind, hidden = HIDDEN[encoding]
    text = f"Look: {hidden} . Thank you, that is all for today."
    found = [f for f in SCANNER.scan([TextPart("x", text)]) if f.kind is kind]
    assert found
    assert all(
        text.index(hidden) <= f.start < f.end <= text.index(hidden) + len(hidden) for f in found
    )


TABLES: list[tuple[FindingKind, str, str]] = [
    (
        FindingKind.DATE_OF_BIRTH,
        "31.10.03",
        "name,mail,mobile,dob\nA. B.,a@fabrikam.com,+880 1812,31.10.03",
    ),
    (FindingKind.DATE_OF_BIRTH, "Nov 30, 1975", "Here it is: name,dob\nA. B.,Nov 30, 1975"),
    (FindingKind.PHONE, "200-1053", "| Kunde | Tel. |\n|---|---|\n| 17 | 200-1053 |"),
    (FindingKind.DATE_OF_BIRTH, "12.03.1985", "NAME    DOB         ID\nBob     12.03.1985  5\n"),
    (FindingKind.PASSPORT, "533380006", "name\tpassport\nBob\t533380006"),
    (FindingKind.PASSPORT, "533380006", 'n;passport\n"B; b";"533380006"\n"C";"533380007"'),
    (
        FindingKind.DATE_OF_BIRTH,
        "1990-01-01",
        "INSERT INTO t (name, born) VALUES ('O, K', '1985-03-12'), ('A', '1990-01-01');",
    ),
    (
        FindingKind.DATE_OF_BIRTH,
        "12.03.1985",
        "<table><tr><th>Name</th><th>Born</th></tr><tr><td>Bob</td><td>12.03.1985</td></tr>",
    ),
]


@pytest.mark.parametrize(("kind", "cell", "text"), TABLES)
def test_column_header_determines_the_kind_of_its_cells(
    kind: FindingKind, cell: str, text: str
) -> None:
    found = [f for f in SCANNER.scan([TextPart("x", text)]) if f.kind is kind]
    assert cell in {text[f.start : f.end] for f in found}


@pytest.mark.parametrize(
    "text",
    [
        "Ich möchte “Äpfel” – und 3 × 4 … in Köln",
        "Привет, как дела? У меня 3 яблока.",
        "今天天气很好，我有三个苹果和两个梨。",
        "x = [3, 1, 4, 1, 5, 9, 2, 6]; y = x[0] % 2",
        "&lt;div class=&quot;a&quot;&gt; &amp; &nbsp;",
        "one two three testing",
        "base64 of nothing: AAAA BBBB CCCC, internationalization",
        "the years 2019, 2020, 2021 and 2022",
        "reverse the list and print it backwards",
        "1. 2019 2. 2020 3. 2021 4. 2022",
        "12345678\n23456789\n34567890\n45678901",
        '{"a": "12345678", "height": "23456780", "width": "1024"}',
        "def f(x):\n    return x\n@pytest.fixture\ndef g(): ...",
        "qty,price,total\n12345,6789,1234567\n22345,7789,2234567",
        "Average speed, please.\nIn 1985, 3 of 4, and so on.",
        "nice 🎉 great 🎉 day 🎉 everyone 🎉",
        "- - - - - - - - - -\n... ... ... ... ... ... ... ...",
        "base85 turns 4 bytes into 5 letters, while base64 turns 3 into 4",
        "git://a#b?c=d&e=f@g!h%i~j`k^l+m=n;o<p>q{r}s|t",
        "1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9",
    ],
)
def test_harmless_texts_have_no_findings(text: str) -> None:
    assert SCANNER.scan([TextPart("x", text)]) == []


@pytest.mark.slow
@given(st.text(max_size=80), st.data())
def test_positions_map_back_after_edits(text: str, data: st.DataObject) -> None:
    """After any edits, every kept character maps to its original position."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    edits = [
        (a, b, data.draw(st.text(max_size=4))) for a, b in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    view = View([(text, (0, len(text)), True)]).edited(edits).edited([])
    for place, letter in enumerate(view.text):
        start, end = view.span(place, place + 1)
        assert 0 <= start < end <= len(text)
        assert view.touches_an_edit(place, place + 1) or text[start:end] == letter


@given(st.text(max_size=300))
def test_all_views_map_into_the_text(text: str) -> None:
    for view in views(text):
        for place in range(len(view.text)):
            start, end = view.span(place, place + 1)
            assert 0 <= start <= end <= max(len(text), 1)


@pytest.mark.parametrize(
    "piece",
    [
        "passport a ", "=41",
        "4 ", "a@", "-", "password", "((", "1.1.", "::", "eyJ", "http://a:", '"', "%41", " ", "\\",
        "one ", "a dot ", " at ", "é\u0301", "1\u200b", "born ", "/home/a", "abc def ghi ", "+1 2 ",
        "41 ", "4,", "Server=a;", "-----BEGIN RSA PRIVATE KEY-----", "cookie:a=", "A1 ",
        "1. 4111 ", "a,b\n", "a  b\n1  2\n", "> 4111\n", '"4111", ', "a: 41, ", "- a1B\n", "🙂a",
        "one-", "<th>a", "VALUES (1,", "begin 644 a\n", "=?a?Q?", "AB12 ", "(1) ",
        "1111 then ", ". - ",
        "account number (", "a.", "a@a.", "$2a$", "+49 ", "1-", "AKIA", "a" * 63 + "\n", "..\\",
    ],
)  # fmt: skip
def test_hostile_texts_are_scanned_in_time(piece: str) -> None:
    """Catches regular expressions with catastrophic backtracking."""
    text = piece * (12_000 // len(piece))
    assert not any(f.detector == "failed: time" for f in SCANNER.scan([TextPart("x", text)]))
