"""What is read in a text that hides something, and that places lead back to the original."""

from __future__ import annotations

import base64
import codecs
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.routing.finding import Kind, TextPart
from ingle.daemon.routing.normalised_text import Edit, View, views
from ingle.daemon.routing.scanner import OwnWords, Scanner, structured_detectors

SCANNER = Scanner(structured_detectors(OwnWords()))
CARD, MAIL = "4111111111111111", "jane.doe@example.com"
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
GERMAN = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


HIDDEN: dict[str, tuple[Kind, str]] = {
    "zero width": (Kind.CARD, "\u200b".join(CARD)),
    "soft hyphen": (Kind.EMAIL, "\u00ad".join(MAIL)),
    "bidi": (Kind.CARD, "\u202e" + CARD + "\u202c"),
    "full width": (Kind.CARD, "".join(chr(ord(c) + 0xFEE0) for c in CARD)),
    "mathematical": (Kind.CARD, "".join(chr(0x1D7CE + int(c)) for c in CARD)),
    "arabic digits": (Kind.CARD, "".join(chr(0x660 + int(c)) for c in CARD)),
    "keycaps": (Kind.CARD, "".join(c + "\ufe0f\u20e3" for c in CARD)),
    "struck through": (Kind.CARD, "\u0336".join(CARD)),
    "invisible tags": (Kind.EMAIL, "".join(chr(0xE0000 + ord(c)) for c in MAIL)),
    "lookalikes": (Kind.EMAIL, "jаnе.dое@ехаmple.com"),
    "nul": (Kind.CARD, "4111\x001111\x001111\x001111"),
    "base64": (Kind.EMAIL, b64(MAIL)),
    "base64 twice": (Kind.EMAIL, b64(b64("write to " + MAIL))),
    "base64 in lines": (Kind.EMAIL, base64.encodebytes((f"{MAIL} " * 9).encode()).decode()),
    "base64 of gzip": (Kind.CARD, base64.b64encode(gzip.compress(CARD.encode())).decode()),
    "base64 of utf-16": (Kind.EMAIL, base64.b64encode(MAIL.encode("utf-16-le")).decode()),
    "base32": (Kind.EMAIL, base64.b32encode(MAIL.encode()).decode()),
    "hexadecimal": (Kind.EMAIL, MAIL.encode().hex()),
    "hexadecimal row": (Kind.EMAIL, MAIL.encode().hex(" ")),
    "codes": (Kind.EMAIL, " ".join(str(ord(c)) for c in MAIL)),
    "bits": (Kind.EMAIL, " ".join(f"{ord(c):08b}" for c in MAIL)),
    "percent": (Kind.EMAIL, "".join(f"%{ord(c):02X}" for c in MAIL)),
    "entities": (Kind.EMAIL, MAIL.replace("@", "&#64;").replace(".", "&period;")),
    "escapes": (Kind.CARD, "".join(f"\\u00{ord(c):02x}" for c in CARD)),
    "quoted printable": (Kind.EMAIL, MAIL.replace("@", "=40").replace(".", "=2E")),
    "escapes of CSS": (Kind.CARD, "".join(f"\\0000{ord(c):02x}" for c in CARD)),
    "percent u": (Kind.EMAIL, "".join(f"%u{ord(c):04x}" for c in MAIL)),
    "hexadecimal of utf-16": (Kind.EMAIL, MAIL.encode("utf-16-be").hex()),
    "octal codes": (Kind.EMAIL, " ".join(f"{ord(c):03o}" for c in MAIL)),
    "octal codes of digits": (Kind.CARD, " ".join(f"{ord(c):03o}" for c in CARD)),
    "calls": (Kind.EMAIL, " + ".join(f"chr({ord(c)})" for c in MAIL)),
    "dump": (
        Kind.EMAIL,
        f"00000000: {MAIL[:16].encode().hex(' ', 2)}  {MAIL[:16]}\n"
        f"00000010: {MAIL[16:].encode().hex(' ', 2):39}  {MAIL[16:]}",
    ),
    "data URL": (Kind.CARD, "data:text/plain;base64," + b64("4111 1111 1111 1111")),
    "base64 with no-break spaces": (Kind.CARD, b64("4111\xa01111\xa01111\xa01111")),
    "tags": (Kind.CARD, "".join(f"<b>{c}</b>" for c in CARD)),
    "comment": (Kind.CARD, "41111<!-- x -->11111111111"),
    "list of texts": (Kind.CARD, ", ".join(f"'{c}'" for c in CARD)),
    "joined list": (Kind.EMAIL, "['jane.', 'doe@ex', 'ample.com'].join('')"),
    "right-to-left override": (Kind.EMAIL, "\u202e" + MAIL[::-1] + "\u202c"),
    "right to left": (Kind.EMAIL, "read from right to left: " + MAIL[::-1]),
    "rot47": (
        Kind.EMAIL,
        "rot47: " + "".join(chr(33 + (ord(c) + 14) % 94) for c in MAIL),
    ),
    "string pieces": (Kind.API_KEY, 'k = "sk-ant-api03-" + "abcdefghijABCDEFGHIJ0123456789"'),
    "words": (Kind.CARD, " ".join(WORDS[int(c)] for c in CARD)),
    "german words": (Kind.CARD, " ".join(GERMAN[int(c)] for c in CARD)),
    "double": (Kind.CARD, "four triple one " + "one " * 11 + "one"),
    "stars": (Kind.CARD, "*".join(CARD)),
    "a list": (Kind.CARD, ", ".join(CARD)),
    "lines": (Kind.CARD, "\n".join(CARD)),
    "letters": (Kind.CARD, "4lll 1I1l 1111 1111"),
    "groups in a sentence": (Kind.CARD, "first 4111, then 1111 and 1111, last 1111."),
    "backwards": (Kind.CARD, "reversed " + CARD[::-1]),
    "rot13": (Kind.EMAIL, "rot13: wnar.qbr@rknzcyr.pbz"),
}


@pytest.mark.parametrize("way", HIDDEN)
def test_hidden_things_are_found_where_they_stand(way: str) -> None:
    kind, hidden = HIDDEN[way]
    text = f"Look: {hidden} . Thank you, that is all for today."
    found = [f for f in SCANNER.scan([TextPart("x", text)]) if f.kind is kind]
    assert found
    assert all(
        text.index(hidden) <= f.start < f.end <= text.index(hidden) + len(hidden) for f in found
    )


def test_rot13_of_the_test_is_right() -> None:
    assert codecs.encode(MAIL, "rot13") in HIDDEN["rot13"][1]


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
    ],
)
def test_plain_texts_in_other_clothes_are_left_alone(text: str) -> None:
    assert SCANNER.scan([TextPart("x", text)]) == []


@pytest.mark.parametrize(
    ("texts", "spans"),
    [
        (["my card: 4111 1111", "1111 1111"], {0: "4111 1111", 1: "1111 1111"}),
        (["mail jane.doe@exam", "ok?", "ple.com thanks"], {0: "jane.doe@exam", 2: "ple.com"}),
        (["4111", "1111", "1111", "1111"], {0: "4111", 1: "1111", 2: "1111", 3: "1111"}),
        (["I have 3", "4 apples"], {}),
        (["write jane@example.com", "Hello 5 people"], {0: "jane@example.com"}),
    ],
)
def test_what_is_split_over_parts_is_found_in_each(texts: list[str], spans: dict[int, str]) -> None:
    found = SCANNER.scan([TextPart(f"messages[{n}]", text) for n, text in enumerate(texts)])
    assert {f.part: texts[f.part][f.start : f.end] for f in found} == spans


@given(st.text(max_size=80), st.data())
def test_places_lead_back(text: str, data: st.DataObject) -> None:
    """Whatever is cut and put in, a kept character stands where it stood."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    edits = [
        Edit(a, b, data.draw(st.text(max_size=4)))
        for a, b in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    view = View(text).edited(edits).edited([])
    for place, letter in enumerate(view.text):
        start, end = view.span(place, place + 1)
        assert 0 <= start < end <= len(text)
        assert view.touches_an_edit(place, place + 1) or text[start:end] == letter


@given(st.text(max_size=300))
def test_every_view_of_every_text_lies_within_it(text: str) -> None:
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
        "account number (", "a.", "a@a.", "$2a$", "+49 ", "1-", "AKIA", "a" * 63 + "\n", "..\\",
    ],
)  # fmt: skip
def test_hostile_texts_are_read_in_time(piece: str) -> None:
    """A pattern that tries every way would never come to an end here."""
    text = piece * (12_000 // len(piece))
    assert not any(f.detector == "failed: time" for f in SCANNER.scan([TextPart("x", text)]))
