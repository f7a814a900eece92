"""Text views: obfuscated text is decoded, and positions map back to the original."""

from __future__ import annotations

import base64
import binascii
import codecs
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.routing.detectors.finding import FindingKind, TextPart
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, structured_detectors
from ingle.daemon.routing.views.spelled_digits import with_digits
from ingle.daemon.routing.views.text_views import View, views

SCANNER = Scanner(structured_detectors(OwnWords()))
CARD, MAIL = "4111111111111111", "jane.doe@example.com"
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
GERMAN = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")


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
    "lookalikes": (FindingKind.EMAIL, "jаnе.dое@ехаmple.com"),
    "nul": (FindingKind.CARD, "4111\x001111\x001111\x001111"),
    "base64": (FindingKind.EMAIL, b64(MAIL)),
    "base64 twice": (FindingKind.EMAIL, b64(b64("write to " + MAIL))),
    "base64 in lines": (FindingKind.EMAIL, base64.encodebytes((f"{MAIL} " * 9).encode()).decode()),
    "base64 of gzip": (FindingKind.CARD, base64.b64encode(gzip.compress(CARD.encode())).decode()),
    "base64 of utf-16": (FindingKind.EMAIL, base64.b64encode(MAIL.encode("utf-16-le")).decode()),
    "base32": (FindingKind.EMAIL, base64.b32encode(MAIL.encode()).decode()),
    "hexadecimal": (FindingKind.EMAIL, MAIL.encode().hex()),
    "hexadecimal bytes": (FindingKind.EMAIL, MAIL.encode().hex(" ")),
    "decimal character codes": (FindingKind.EMAIL, " ".join(str(ord(c)) for c in MAIL)),
    "binary": (FindingKind.EMAIL, " ".join(f"{ord(c):08b}" for c in MAIL)),
    "percent encoding": (FindingKind.EMAIL, "".join(f"%{ord(c):02X}" for c in MAIL)),
    "HTML entities": (FindingKind.EMAIL, MAIL.replace("@", "&#64;").replace(".", "&period;")),
    "unicode escapes": (FindingKind.CARD, "".join(f"\\u00{ord(c):02x}" for c in CARD)),
    "quoted printable": (FindingKind.EMAIL, MAIL.replace("@", "=40").replace(".", "=2E")),
    "CSS escapes": (FindingKind.CARD, "".join(f"\\0000{ord(c):02x}" for c in CARD)),
    "percent u": (FindingKind.EMAIL, "".join(f"%u{ord(c):04x}" for c in MAIL)),
    "hexadecimal of utf-16": (FindingKind.EMAIL, MAIL.encode("utf-16-be").hex()),
    "octal codes": (FindingKind.EMAIL, " ".join(f"{ord(c):03o}" for c in MAIL)),
    "octal codes of digits": (FindingKind.CARD, " ".join(f"{ord(c):03o}" for c in CARD)),
    "chr calls": (FindingKind.EMAIL, " + ".join(f"chr({ord(c)})" for c in MAIL)),
    "hex dump": (
        FindingKind.EMAIL,
        f"00000000: {MAIL[:16].encode().hex(' ', 2)}  {MAIL[:16]}\n"
        f"00000010: {MAIL[16:].encode().hex(' ', 2):39}  {MAIL[16:]}",
    ),
    "data URL": (FindingKind.CARD, "data:text/plain;base64," + b64("4111 1111 1111 1111")),
    "base64 with no-break spaces": (FindingKind.CARD, b64("4111\xa01111\xa01111\xa01111")),
    "HTML tags": (FindingKind.CARD, "".join(f"<b>{c}</b>" for c in CARD)),
    "HTML comment": (FindingKind.CARD, "41111<!-- x -->11111111111"),
    "list of texts": (FindingKind.CARD, ", ".join(f"'{c}'" for c in CARD)),
    "joined list": (FindingKind.EMAIL, "['jane.', 'doe@ex', 'ample.com'].join('')"),
    "right-to-left override": (FindingKind.EMAIL, "\u202e" + MAIL[::-1] + "\u202c"),
    "right to left": (FindingKind.EMAIL, "read from right to left: " + MAIL[::-1]),
    "rot47": (
        FindingKind.EMAIL,
        "rot47: " + "".join(chr(33 + (ord(c) + 14) % 94) for c in MAIL),
    ),
    "string pieces": (
        FindingKind.API_KEY,
        'k = "sk-ant-api03-" + "abcdefghijABCDEFGHIJ0123456789"',
    ),
    "spelled digits": (FindingKind.CARD, " ".join(WORDS[int(c)] for c in CARD)),
    "spelled digits in German": (FindingKind.CARD, " ".join(GERMAN[int(c)] for c in CARD)),
    "double and triple": (FindingKind.CARD, "four triple one " + "one " * 11 + "one"),
    "asterisks between digits": (FindingKind.CARD, "*".join(CARD)),
    "comma-separated digits": (FindingKind.CARD, ", ".join(CARD)),
    "one digit per line": (FindingKind.CARD, "\n".join(CARD)),
    "letters that look like digits": (FindingKind.CARD, "4lll 1I1l 1111 1111"),
    "groups in a sentence": (FindingKind.CARD, "first 4111, then 1111 and 1111, last 1111."),
    "reversed": (FindingKind.CARD, "reversed " + CARD[::-1]),
    "rot13": (FindingKind.EMAIL, "rot13: wnar.qbr@rknzcyr.pbz"),
    "rot47 between tags": (FindingKind.CARD, "<p>rot47: c```\xa0````\xa0````\xa0````</p>"),
    "base85": (FindingKind.EMAIL, base64.b85encode(MAIL.encode()).decode()),
    "named base85": (
        FindingKind.CARD,
        "<p>base85: " + base64.b85encode(CARD.encode()).decode() + "</p>",
    ),
    "ascii85": (FindingKind.EMAIL, base64.a85encode(MAIL.encode(), adobe=True).decode()),
    "named ascii85": (FindingKind.EMAIL, "ascii85 " + base64.a85encode(MAIL.encode()).decode()),
    "z85": (FindingKind.EMAIL, "z85: ygh0>e[w)ikXkgGze:r5e[n*p"),
    "uuencode": (
        FindingKind.EMAIL,
        "begin 644 a\n" + binascii.b2a_uu(MAIL.encode()).decode() + "`\nend",
    ),
    "MIME encoded word": (FindingKind.CARD, "=?utf-8?Q?4111_1111=201111_1111?="),
    "octal of utf-8": (
        FindingKind.CARD,
        " ".join(f"{byte:03o}" for byte in "4111\xa01111\xa01111\xa01111".encode()),
    ),
    "binary without leading zeros": (FindingKind.EMAIL, " ".join(f"{ord(c):b}" for c in MAIL)),
    "binary-coded decimal": (FindingKind.CARD, " ".join(f"{int(c):04b}" for c in CARD)),
    "morse": (FindingKind.CARD, "....- " + ".---- " * 14 + ".----"),
    "emoji between digits": (
        FindingKind.CARD,
        "".join(c + p for c, p in zip(CARD, "🙂🎈🍀⭐" * 4, strict=True)),
    ),
    "joined emoji": (FindingKind.CARD, "👩‍💻".join(CARD)),
    "emoji in an email address": (FindingKind.EMAIL, "🙂".join(MAIL)),
    "mixed separators": (
        FindingKind.CARD,
        "".join(c + p for c, p in zip(CARD, "*~|^" * 4, strict=True))[:-1],
    ),
    "spaced out": (FindingKind.EMAIL, " ".join(MAIL)),
    "dashes in an IBAN": (FindingKind.IBAN, "-".join("DE89370400440532013000")),
    "groups of an IBAN": (FindingKind.IBAN, "DE89, 3704, 0044, 0532, 0130, 00"),
    "numbered items": (FindingKind.CARD, "1. 4111 2. 1111 3. 1111 4. 1111"),
    "named items": (FindingKind.CARD, "no. 1 4111, no. 2 1111, no. 3 1111, no. 4 1111"),
    "numbered items of different lengths": (FindingKind.CARD, "1) 3782 2) 822463 3) 10005"),
    "items on lines": (FindingKind.CARD, "(1/4) 4111\n(2/4) 1111\n(3/4) 1111\n(4/4) 1111"),
    "quoted lines": (FindingKind.CARD, "> 4111 1111\n> 1111 1111"),
    "halves on lines": (FindingKind.CARD, "41111111\n11111111"),
    "split at a line end": (FindingKind.CARD, "4111 1111\n1111 1111 is it"),
    "IBAN over lines": (FindingKind.IBAN, "DE89 3704 0\n044 0532 \n0130 00"),
    "email address over lines": (FindingKind.EMAIL, "jane.doe@exam\nple.com\n"),
    "API key over lines": (FindingKind.API_KEY, "sk-ant-api03-ab\ncdefghijABCDEFG\nHIJ0123456789"),
    "halves in a sentence": (FindingKind.CARD, "41111111 and ends with 11111111"),
    "JSON fields": (FindingKind.CARD, '{"part1": "4111 11", "part2": "11 1111", "part3": " 1111"}'),
    "numbered fields": (FindingKind.CARD, '{"0": 4111, "1": 1111, "2": 1111, "3": 1111}'),
    "JSON fields of an API key": (
        FindingKind.API_KEY,
        '{"a": "sk-ant-", "b": "api03-abcdefghijABCDEFGHIJ0123"}',
    ),
    "variables": (FindingKind.CARD, "a = '4111111'; b = '111111111'; print(a + b)"),
    "JSON array": (FindingKind.CARD, '[\n  "4111",\n  "1111",\n  "1111",\n  "1111"\n]'),
    "unequal strings": (FindingKind.EMAIL, '"jane.d", "oe@exam", "ple.com"'),
    "spelled pairs of digits": (FindingKind.CARD, "forty-one " + "eleven " * 6 + "eleven"),
    "spelled pairs in French": (FindingKind.CARD, "quarante et un, " + "onze, " * 6 + "onze"),
    "spelled pairs in German": (FindingKind.CARD, "einundvierzig " + "elf " * 6 + "elf"),
    "spelled pairs in Spanish": (FindingKind.CARD, "cuarenta y uno " + "once " * 6 + "once"),
    "spelled digits without spaces": (FindingKind.CARD, "".join(WORDS[int(c)] for c in CARD)),
    "spelled digits over lines": (FindingKind.CARD, "\n".join(WORDS[int(c)] for c in CARD)),
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


@pytest.mark.parametrize(
    ("words", "digits"),
    [
        ("sixty-two ten sixty thirty-nine oh one forty four", "62106039" + "01" + "404"),
        ("zéro six soixante-dix-huit quatre-vingt-dix-sept", "067897"),
        ("quatre-vingt dix-sept vingt et un onze", "972111"),
        ("veintitrés treinta y uno dieciséis cero", "2331160"),
        ("ventuno trentotto quarantatré undici", "21384311"),
        ("tjugoett trettio fyra noll två", "213402"),
        ("tweeëntwintig elf nul een", "221101"),
    ],
)
def test_spelled_out_numbers(words: str, digits: str) -> None:
    assert [stretch[2] for stretch in with_digits(words)] == [digits]


TABLES: list[tuple[FindingKind, str, str]] = [
    (
        FindingKind.DATE_OF_BIRTH,
        "31.10.03",
        "name,mail,mobile,dob\nA. B.,a@example.com,+880 1812,31.10.03",
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


def test_rot13_example_is_correct() -> None:
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


@pytest.mark.parametrize(
    ("texts", "spans"),
    [
        (["my card: 4111 1111", "1111 1111"], {0: "4111 1111", 1: "1111 1111"}),
        (["mail jane.doe@exam", "ok?", "ple.com thanks"], {0: "jane.doe@exam", 2: "ple.com"}),
        (["4111", "1111", "1111", "1111"], {0: "4111", 1: "1111", 2: "1111", 3: "1111"}),
        (["I have 3", "4 apples"], {}),
        (["write jane@example.com", "Hello 5 people"], {0: "jane@example.com"}),
        (["(1/2) 4111 1111", "(2/2) 1111 1111"], {0: "4111 1111", 1: "1111 1111"}),
        (
            ['first half: "jane@exam"', "ok", 'second half: "ple.com"'],
            {0: "jane@exam", 2: "ple.com"},
        ),
    ],
)
def test_values_split_over_parts_are_found_in_each_part(
    texts: list[str], spans: dict[int, str]
) -> None:
    found = SCANNER.scan([TextPart(f"messages[{n}]", text) for n, text in enumerate(texts)])
    assert {f.part: texts[f.part][f.start : f.end] for f in found} == spans


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
