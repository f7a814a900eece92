"""Ways to write an identifier around a filter: those tuned on, and others."""

from __future__ import annotations

import base64
import codecs
import gzip
import random
import urllib.parse
from collections.abc import Callable, Mapping, Sequence

_ENGLISH = "zero one two three four five six seven eight nine".split()  # noqa: SIM905
_FRENCH = "zéro un deux trois quatre cinq six sept huit neuf".split()  # noqa: SIM905
_SPANISH = "cero uno dos tres cuatro cinco seis siete ocho nueve".split()  # noqa: SIM905
_GERMAN = "null eins zwei drei vier fünf sechs sieben acht neun".split()  # noqa: SIM905
_LATIN = str.maketrans("aeopcxyi", "аеорсхуі")
_GREEK = str.maketrans("oavptuik", "οανρτυικ")

_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
_URL_SAFE = str.maketrans("+/", "-_", "=")

Change = Callable[[str, random.Random], str]


def _spell(words: Sequence[str], gap: str = " ") -> Change:
    return lambda text, _: gap.join(words[int(c)] for c in text if c.isdigit())


def _between(sign: str) -> Change:
    return lambda text, _: sign.join(text)


def _digits_between(sign: str) -> Change:
    return lambda text, _: sign.join(c for c in text if c.isdigit())


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _digits_from(first: int) -> Change:
    """Digits of another script, which begin at this code."""
    return lambda text, _: "".join(chr(first + int(c)) if c.isdigit() else c for c in text)


def _letters_from(first: int) -> Change:
    """Small letters of another shape, which begin at this code."""
    return lambda text, _: "".join(chr(first + ord(c) - 97) if "a" <= c <= "z" else c for c in text)


def _digits_of(signs: str) -> Change:
    return lambda text, _: "".join(signs[int(c)] for c in text if c.isdigit())


def _in_lines(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()


def _percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _entities(text: str) -> str:
    return "".join(f"&#{ord(letter)};" for letter in text)


ANY, DIGITS, LETTERS, EMAIL = "any", "digits", "letters", "email"
"""The values that a disguise applies to: all, numbers, values with letters, or mail addresses."""

TUNING: Mapping[str, tuple[str, Change]] = {
    "zero width space": (ANY, _between("\u200b")),
    "full width": (
        ANY,
        lambda t, _: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in t),
    ),
    "english words": (DIGITS, _spell(_ENGLISH)),
    "german words": (DIGITS, _spell(_GERMAN)),
    "stars": (DIGITS, _digits_between("*")),
    "base64": (ANY, lambda t, _: _b64(t)),
    "base64 twice": (ANY, lambda t, _: _b64(_b64("it is " + t))),
    "hexadecimal": (ANY, lambda t, _: t.encode().hex()),
    "percent": (ANY, lambda t, _: "".join(f"%{b:02x}" for b in t.encode())),
    "decimal entities": (ANY, lambda t, _: _entities(t)),
    "unicode escapes": (ANY, lambda t, _: "".join(f"\\u{ord(c):04x}" for c in t)),
    "cyrillic": (LETTERS, lambda t, _: t.translate(_LATIN)),
    "backwards": (ANY, lambda t, _: "reversed: " + t[::-1]),
    "arabic digits": (
        DIGITS,
        _digits_from(0x660),
    ),
}
SECOND: Mapping[str, tuple[str, Change]] = {
    "word joiner": (ANY, _between("\u2060")),
    "soft hyphen": (ANY, _between("\u00ad")),
    "mongolian separator": (ANY, _between("\u180e")),
    "variation selectors": (ANY, _between("\ufe0e")),
    "strike-through": (ANY, lambda t, _: "".join(c + "\u0336" for c in t)),
    "bidi isolate": (ANY, lambda t, _: "\u2067" + t[:5] + "\u2069" + t[5:]),
    "bold mathematical digits": (DIGITS, _digits_from(0x1D7CE)),
    "monospace letters": (LETTERS, _letters_from(0x1D68A)),
    "circled digits": (DIGITS, _digits_of("⓪①②③④⑤⑥⑦⑧⑨")),
    "devanagari digits": (DIGITS, _digits_from(0x966)),
    "keycaps": (DIGITS, lambda t, _: "".join(c + "\ufe0f\u20e3" for c in t if c.isdigit())),
    "thin spaces": (DIGITS, _digits_between("\u2009")),
    "en dashes": (DIGITS, _digits_between("–")),
    "french words": (DIGITS, _spell(_FRENCH)),
    "spanish words, commas": (DIGITS, _spell(_SPANISH, ", ")),
    "english words, dashes": (DIGITS, _spell(_ENGLISH, "-")),
    "commas": (DIGITS, _digits_between(", ")),
    "pipes": (DIGITS, _digits_between(" | ")),
    "lines": (DIGITS, _digits_between("\n")),
    "underscores": (DIGITS, _digits_between("_")),
    "dots": (DIGITS, _digits_between(" . ")),
    "url-safe base64": (ANY, lambda t, _: _b64(t).translate(_URL_SAFE)),
    "base64 with a sentence": (ANY, lambda t, _: _b64("please use this: " + t + " and thanks")),
    "base64 of utf-16": (ANY, lambda t, _: base64.b64encode(t.encode("utf-16-le")).decode()),
    "base64 of gzip": (ANY, lambda t, _: base64.b64encode(gzip.compress(t.encode())).decode()),
    "base32": (ANY, lambda t, _: base64.b32encode(t.encode()).decode()),
    "hexadecimal with colons": (ANY, lambda t, _: t.encode().hex(":")),
    "hexadecimal escapes": (ANY, lambda t, _: "".join(f"\\x{b:02x}" for b in t.encode())),
    "octal escapes": (ANY, lambda t, _: "".join(f"\\{b:03o}" for b in t.encode())),
    "hexadecimal entities": (ANY, lambda t, _: "".join(f"&#x{ord(c):x};" for c in t)),
    "percent of base64": (ANY, lambda t, _: urllib.parse.quote(_b64(t), safe="")),
    "base64 of entities": (ANY, lambda t, _: _b64(_entities(t))),
    "quoted printable": (ANY, lambda t, _: "".join(f"={b:02X}" for b in t.encode())),
    "decimal codes": (ANY, lambda t, _: " ".join(str(b) for b in t.encode("ascii", "replace"))),
    "bits": (ANY, lambda t, _: " ".join(f"{b:08b}" for b in t.encode())),
    "rot13": (LETTERS, lambda t, _: "rot13: " + codecs.encode(t, "rot13")),
    "greek": (LETTERS, lambda t, _: t.translate(_GREEK)),
    "tags": (ANY, lambda t, _: "ok" + "".join(chr(0xE0000 + ord(c)) for c in t if c.isascii())),
    "string pieces": (ANY, lambda t, _: f'"{t[: len(t) // 2]}" + "{t[len(t) // 2 :]}"'),
    "rückwärts": (ANY, lambda t, _: "rückwärts gelesen " + t[::-1]),
}  # fmt: skip
_ITALIAN = "zero uno due tre quattro cinque sei sette otto nove".split()  # noqa: SIM905
_DUTCH = "nul een twee drie vier vijf zes zeven acht negen".split()  # noqa: SIM905
_NAMED = {"@": "&commat;", ".": "&period;", "-": "&hyphen;", "_": "&lowbar;", " ": "&nbsp;"}
HELD_OUT: Mapping[str, tuple[str, Change]] = {
    "byte order marks": (ANY, _between("\ufeff")),
    "left-to-right marks": (ANY, _between("\u200e")),
    "ideographic spaces": (DIGITS, _digits_between("\u3000")),
    "double-struck digits": (DIGITS, _digits_from(0x1D7D8)),
    "script letters": (LETTERS, _letters_from(0x1D4EA)),
    "superscripts": (DIGITS, _digits_of("⁰¹²³⁴⁵⁶⁷⁸⁹")),
    "bengali digits": (DIGITS, _digits_from(0x9E6)),
    "dots above": (ANY, lambda t, _: "".join(c + "\u0307" for c in t)),
    "italian words": (DIGITS, _spell(_ITALIAN)),
    "dutch words, slashes": (DIGITS, _spell(_DUTCH, " / ")),
    "chinese digits": (DIGITS, _digits_of("零一二三四五六七八九")),
    "tildes": (DIGITS, _digits_between("~")),
    "semicolons": (DIGITS, _digits_between("; ")),
    "arrows": (DIGITS, _digits_between(" -> ")),
    "capitals": (LETTERS, lambda t, _: t.upper()),
    "base64 of percent": (ANY, lambda t, _: _b64(_percent(t))),
    "hexadecimal of base64": (ANY, lambda t, _: _b64(t).encode().hex()),
    "base64 in lines": (ANY, lambda t, _: _in_lines(f"{t} and more words. {t}")),
    "hexadecimal in capitals": (ANY, lambda t, _: t.encode().hex().upper()),
    "0x row": (ANY, lambda t, _: ", ".join(f"0x{b:02x}" for b in t.encode())),
    "braced escapes": (ANY, lambda t, _: "".join(f"\\u{{{ord(c):x}}}" for c in t)),
    "long escapes": (ANY, lambda t, _: "".join(f"\\U{ord(c):08x}" for c in t)),
    "named entities": (LETTERS, lambda t, _: "".join(_NAMED.get(c, c) for c in t)),
    "percent of percent": (ANY, lambda t, _: urllib.parse.quote(_percent(t))),
    "char codes with commas": (ANY, lambda t, _: ",".join(str(b) for b in t.encode())),
    "php pieces": (ANY, lambda t, _: f"'{t[:6]}' . '{t[6:]}'"),
    "at and dot": (EMAIL, lambda t, _: t.replace("@", " (at) ").replace(".", " (dot) ")),
    "al revés": (ANY, lambda t, _: "al revés: " + t[::-1]),
}  # fmt: skip
WAYS = {"tuning": TUNING, "second": SECOND, "held out": HELD_OUT}
SPLITS = {
    "tuning": ("two messages",),
    "second": ("with an answer between", "four messages", "system and message"),
    "held out": ("three messages with answers", "thirds in a row"),
}
CARRIERS = {
    "tuning": ("Look: {}", "my card or mail or id is {} ok"),
    "second": (
        "Please remember the following for me: {}",
        "{}",
        "Was bedeutet das hier? {} Danke!",
        "card / e-mail / SSN / IBAN of my uncle -> {}",
    ),
    "held out": ("note to self\n{}\nend", "translate to French: {}", "{} <- who is this?"),
}
