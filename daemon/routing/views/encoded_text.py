"""Decodes base64, hexadecimal, quoted-printable, and escapes in a text."""

from __future__ import annotations

import base64
import binascii
import html
import quopri
import re
import urllib.parse
import zlib
from collections.abc import Callable, Iterator

from ..text_analysis.text_index import long_words
from .text_edits import TextEdit, without_overlaps

# In rows the first item stands alone, or a possessive repetition would consume the last one.
_BASE64_LINES = re.compile(
    r"[A-Za-z0-9+/]{40,}+(?:\r?\n[ \t]{0,8}[A-Za-z0-9+/]{40,}+)*+"
    r"(?:\r?\n[ \t]{0,8}(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
    r"(?![A-Za-z0-9+/]))?={0,2}"
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}+={0,2}")
_HEX = re.compile(r"(?:0x)?(?:[0-9a-fA-F]{2}){6,}+(?![0-9a-zA-Z])")
_ENCODED_WORD = re.compile(r"=\?[\w-]{3,20}\?([QqBb])\?([^?\s]{1,800})\?=")
# Repetitions are written twice, since a search for a first character is many times faster.
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*")
_ONE_ENTITY = r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,24});"
_ENTITY = re.compile(rf"{_ONE_ENTITY}(?:{_ONE_ENTITY})*")
_ESCAPE = re.compile(
    r"(?:\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\u\{[0-9a-fA-F]{1,6}\}|\\U[0-9a-fA-F]{8}"
    r"|%u[0-9a-fA-F]{4}|\\[0-3][0-7]{2})+"
)
_ONE_ESCAPE = re.compile(r"(?:[\\%][uxU]\{?)(?P<hex>[0-9a-fA-F]+)\}?|\\(?P<octal>[0-7]{3})")
_QUOTED = re.compile(r"(?<!=)=(?:[0-9A-F]{2}(?:=[0-9A-F]{2})*|\r?\n)")
_DATA_URL = "base64,"
_LEAST_HEX, _LEAST, _MOST_DECODED = 12, 5, 65_536
_HEX_LETTERS = frozenset("abcdefABCDEF")
_AROUND_WORDS = ".,;:!?()\"'"


def decoded(text: str) -> list[TextEdit]:
    """Return all encoded spans that decode to readable text, in order, without overlaps."""
    words = long_words(text)
    codes = [word for word in words if _may_be_code(text[word[0] : word[1]])]
    found = [*_quoted(text)]
    for start, end in codes:
        found += _base64(text, start, end)
        found += _hex(text, start, end)
    for hint, pattern, decode in _DECODERS:
        if hint in text:
            for match in pattern.finditer(text):
                said = decode(match)
                if said is not None:
                    found.append((*match.span(), said))
    return without_overlaps(found)


def reads_as(code: str) -> str | None:
    """Return the text in a base64 code, also of compressed or UTF-16 text; None if there is
    none.
    """
    plain = "".join(code.split()).rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        return None
    try:
        data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return _as_text(data)


def _as_text(data: bytes) -> str | None:
    """Return data as readable text, decompressed if needed; None if it is not text."""
    if data[:2] in (b"\x1f\x8b", b"x\x9c", b"x\x01", b"x\xda"):
        try:
            data = zlib.decompressobj(wbits=47).decompress(data, _MOST_DECODED)
        except zlib.error:
            return None
    wide = len(data) >= 8 and data[1::2].count(0) > len(data) // 3
    other = len(data) >= 8 and data[::2].count(0) > len(data) // 3
    try:
        said = data.decode("utf-16-le" if wide else "utf-16-be" if other else "utf-8")
    except UnicodeDecodeError:
        return None
    said = said[:_MOST_DECODED]
    odd = sum(not letter.isprintable() and not letter.isspace() for letter in said)
    return said if len(said) >= _LEAST and odd * 50 <= len(said) else None


def _may_be_code(word: str) -> bool:
    """Whether it is more than letters with at most a leading capital, or all of them are hex."""
    if not word.isalpha():
        word = word.strip(_AROUND_WORDS)
    if not word.isalpha() or not word[1:].islower():
        return True
    return len(word) >= _LEAST_HEX and _HEX_LETTERS.issuperset(word)


def _base64(text: str, begin: int, stop: int) -> Iterator[TextEdit]:
    for match in _BASE64.finditer(text, begin, stop):
        code = match[0]
        if not _is_mixed(code):
            continue
        said = reads_as(code)
        if said is not None:
            # The digit and the comma of `base64,` would look like part of a longer number.
            prefix = len(_DATA_URL) * text.startswith(_DATA_URL, match.start() - len(_DATA_URL))
            yield match.start() - prefix, match.end(), said
            continue
        for piece in re.finditer(r"[A-Za-z0-9+]{12,}+={0,2}", code):
            said = reads_as(piece[0]) if len(piece[0]) < len(code) else None
            if said is not None:
                yield match.start() + piece.start(), match.start() + piece.end(), said


def _hex(text: str, begin: int, stop: int) -> Iterator[TextEdit]:
    for match in _HEX.finditer(text, begin, stop) if stop - begin >= _LEAST_HEX else ():
        said = _as_text(bytes.fromhex(match[0].removeprefix("0x")))
        if said is not None:
            yield *match.span(), said


def _decode_base64_lines(match: re.Match[str]) -> str | None:
    return reads_as(match[0]) if "\n" in match[0] else None


def _decode_word(match: re.Match[str]) -> str | None:
    """Return the text of `=?utf-8?Q?…?=` in a mail header (RFC 2047)."""
    try:
        if match[1] in "Qq":
            data = quopri.decodestring(match[2].encode(), header=True)
        else:
            data = base64.b64decode(match[2] + "=" * (-len(match[2]) % 4))
    except (binascii.Error, ValueError):
        return None
    return _as_text(data)


def _decode_percent(match: re.Match[str]) -> str:
    return _visible(urllib.parse.unquote(match[0], errors="replace"))


def _decode_entities(match: re.Match[str]) -> str | None:
    said = html.unescape(match[0])
    return _visible(said) if said != match[0] else None


def _decode_escapes(match: re.Match[str]) -> str:
    return _visible(_ONE_ESCAPE.sub(_unescaped, match[0]))


def _unescaped(match: re.Match[str]) -> str:
    code = int(match["hex"], 16) if match["hex"] else int(match["octal"], 8)
    return chr(code) if code < 0x110000 else ""


def _quoted(text: str) -> Iterator[TextEdit]:
    """Yield quoted-printable text, if there is more of it than a few assignments look like."""
    matches = list(_QUOTED.finditer(text)) if text.count("=") > 1 else []
    if sum(len(match[0]) for match in matches) < 6:
        return
    for match in matches:
        codes = re.sub(r"[=\r\n]", "", match[0])
        said = bytes.fromhex(codes).decode("utf-8", "replace")
        if said.replace("\u00a0", " ").isprintable():
            yield *match.span(), said


_DECODERS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str | None]], ...] = (
    ("\n", _BASE64_LINES, _decode_base64_lines),
    ("=?", _ENCODED_WORD, _decode_word),
    ("%", _PERCENT, _decode_percent),
    ("&", _ENTITY, _decode_entities),
    ("\\", _ESCAPE, _decode_escapes),
    ("%u", _ESCAPE, _decode_escapes),
)
"""Each with a text that every match has."""


def _is_mixed(code: str) -> bool:
    """Whether it looks like a code, and not like a word, a path or a number."""
    body = code.rstrip("=")
    upper = body[1:].lower() != body[1:]
    lower = body.upper() != body
    return (upper and lower) or ((upper or lower) and any(map(str.isdigit, body)))


def _visible(said: str) -> str:
    """Return the text without invisible characters and lone surrogates."""
    whole = said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "".join(letter for letter in whole if letter.isprintable() or letter.isspace())
