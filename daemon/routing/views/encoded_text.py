"""Decodes base64, hexadecimal, escapes, and concatenated strings in a text."""

from __future__ import annotations

import base64
import binascii
import html
import re
import urllib.parse
from collections.abc import Callable, Iterator

from ..text_analysis.text_index import digit_runs, long_words, vocabulary
from .rare_encodings import (
    ENCODED_WORD,
    as_text,
    base85,
    decode_word,
    morse,
    named_85,
    uuencoded,
)
from .text_edits import TextEdit, without_overlaps

# In rows the first item stands alone, or a possessive repetition would consume the last one.
_BASE64_LINES = re.compile(
    r"[A-Za-z0-9+/]{40,}+(?:\r?\n[ \t]{0,8}[A-Za-z0-9+/]{40,}+)*+"
    r"(?:\r?\n[ \t]{0,8}(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
    r"(?![A-Za-z0-9+/]))?={0,2}"
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}+={0,2}")
_BASE32 = re.compile(r"[A-Z2-7]{16,}+={0,6}")
_HEX = re.compile(r"(?:0x)?(?:[0-9a-fA-F]{2}){6,}+(?![0-9a-zA-Z])")
_HEX_ROW = re.compile(r"[0-9a-fA-F]{2}(?:[ ,:;]{1,2}(?:0x|\\x)?[0-9a-fA-F]{2}(?!\w)){5,}+")
_CODE_ROW = re.compile(r"[0-9]{2,3}(?:[ ,;]{1,2}[0-9]{2,3}(?![0-9.])){5,}+")
_LEAST_CODES = 6
_LONGEST_CODES = 2 * (_LEAST_CODES - 1) + 3 * (_LEAST_CODES - 2)  # from the first's end to the last
_LONGEST_PAIRS = 6 * (_LEAST_CODES - 1)  # with `, ` and `\\x` before each but the first
_BITS = re.compile(r"[01]{8}(?:[ ,]?[01]{8}){3,}+")
_BIT_ROW = re.compile(r"(?<![\w.,])[01]{4,8}(?:[ ,]{1,2}[01]{4,8}){7,}+(?!\w)")
# Repetitions are written twice, since a search for a first character is many times faster.
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*")
_ONE_ENTITY = r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,24});"
_ENTITY = re.compile(rf"{_ONE_ENTITY}(?:{_ONE_ENTITY})*")
_ESCAPE = re.compile(
    r"(?:\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\u\{[0-9a-fA-F]{1,6}\}|\\U[0-9a-fA-F]{8}"
    r"|%u[0-9a-fA-F]{4}|\\0000[0-9a-fA-F]{2}|\\[0-3][0-7]{2})+"
)
_ONE_ESCAPE = re.compile(
    r"(?:[\\%][uxU]\{?|\\(?=0000))(?P<hex>[0-9a-fA-F]+)\}?|\\(?P<octal>[0-7]{3})"
)
_CALLS = re.compile(r"[cC]hr\(\d{2,3}\)(?:\s?[+.&]\s?[cC]hr\(\d{2,3}\)){4,}+")
_COMMENT = re.compile(r"<!--[^>]{0,200}-->")
_TAGS = re.compile(r"(?<=[0-9])(?:</?[a-zA-Z]{1,8}>){1,4}(?=[0-9])")
_LISTED = re.compile(r"([\"'`])\s{0,3},\s{0,12}\1")
_DATA_URL = "base64,"
_DUMP = re.compile(
    r"[0-9a-f]{6,8}:? {1,2}(?:[0-9a-f]{2,4} {1,2}){2,16}[^\n]{0,24}"
    r"(?:\n[0-9a-f]{6,8}:? {1,2}(?:[0-9a-f]{2,4} {1,2}){1,16}[^\n]{0,24})*"
)
_DUMP_ROW = re.compile(r"[0-9a-f]{6,8}:? {1,2}((?:[0-9a-f]{2,4} ){1,16})")
_QUOTED = re.compile(r"=(?:[0-9A-F]{2}(?:=[0-9A-F]{2})*|\r?\n)")
_LEAST_HEX = 12
_HEX_LETTERS = frozenset("abcdefABCDEF")
_HEX_DIGITS = frozenset("0123456789abcdef")
_AROUND_WORDS = ".,;:!?()\"'"
_PIECES = re.compile(r"([\"'`])\s{0,3}(?:\+|\.{1,2}|&|\|\||\\\n)\s{0,12}[brfu]?\1")


def decoded(text: str) -> list[TextEdit]:
    """Return all encoded spans that decode to readable text, in order, without overlaps."""
    found: list[TextEdit] = []
    words = long_words(text)
    codes = [word for word in words if _may_be_code(text[word[0] : word[1]])]
    # Shorter words are not counted.
    longest = max((end - start for start, end in words), default=8)
    for least, finder in _IN_WORDS:
        for start, end in codes:
            if end - start >= least:
                found += finder(text, start, end)
    for least, finder in _FINDERS:
        if longest >= least:
            found += finder(text)
    for least, hints, pattern, decode in _DECODERS:
        if longest >= least and any(hint in text for hint in hints):
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
    return as_text(data)


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


def _base32(text: str, begin: int, stop: int) -> Iterator[TextEdit]:
    for match in _BASE32.finditer(text, begin, stop):
        code = match[0].rstrip("=")
        try:
            said = as_text(base64.b32decode(code + "=" * (-len(code) % 8)))
        except binascii.Error:
            continue
        if said is not None:
            yield *match.span(), said


def _hex(text: str, begin: int, stop: int) -> Iterator[TextEdit]:
    for match in _HEX.finditer(text, begin, stop):
        yield from _of_digits(match)


def _rows(text: str) -> Iterator[TextEdit]:
    runs = digit_runs(text)  # bytes of text have a digit each, with few exceptions
    if not any(
        last - end <= _LONGEST_PAIRS
        for (_, end), (last, _) in zip(runs, runs[_LEAST_CODES - 1 :], strict=False)
    ):
        return
    if "0x" not in text and "\\x" not in text:
        pairs = [word for word in vocabulary(text).row if len(word) == 2]
        if sum(map(_HEX_DIGITS.issuperset, pairs)) < _LEAST_CODES:
            return
    for match in _HEX_ROW.finditer(text):
        for start, end, said in _of_digits(match):
            # `50 52` may be two letters in decimal and in hexadecimal.
            other = _CODE_ROW.fullmatch(match[0])
            yield start, end, f"{said}\n{_of_codes(match[0])}" if other else said


def _of_digits(match: re.Match[str]) -> Iterator[TextEdit]:
    digits = re.sub(r"0x|\\x|[^0-9a-fA-F]", "", match[0])
    said = as_text(bytes.fromhex(digits)) if len(digits) % 2 == 0 else None
    if said is not None:
        first = match.string[max(0, match.start() - 2) : match.start()] in ("0x", "\\x")
        yield match.start() - 2 * first, match.end(), said


def _codes(text: str) -> Iterator[TextEdit]:
    for match in _code_rows(text):
        said = _of_codes(match[0])
        if said:
            yield *match.span(), said
    if "0110" in text or "0011" in text or "0001" in text:
        for match in _BITS.finditer(text):
            bits = re.sub(r"[ ,]", "", match[0])
            said = as_text(int(bits, 2).to_bytes(len(bits) // 8, "big"))
            if said is not None:
                yield *match.span(), said
        for match in _BIT_ROW.finditer(text):
            groups = re.findall(r"[01]+", match[0])
            codes = [int(bits, 2) for bits in groups]
            # Four bits are a digit, and more without their leading zeros a letter.
            said = "".join(map(str, codes)) if max(codes) < 10 else _as_letters(codes)
            if said:
                yield *match.span(), said


def _code_rows(text: str) -> Iterator[re.Match[str]]:
    """Yield matches of `_CODE_ROW`, which begin with the last three digits of a run or all
    of it.
    """
    runs = digit_runs(text)
    done = 0
    for (start, end), (last, _) in zip(runs, runs[_LEAST_CODES - 1 :], strict=False):
        near = last - end <= _LONGEST_CODES and start >= done
        match = _CODE_ROW.match(text, max(start, end - 3)) if near else None
        if match is not None:
            done = match.end()
            yield match


def _of_codes(row: str) -> str:
    items = re.findall(r"[0-9]+", row)
    readings = [[int(item) for item in items]]
    if all(len(item) == 3 and item[0] in "0123" and max(item) <= "7" for item in items):
        readings.append([int(item, 8) for item in items])
    return "\n".join(filter(None, map(_as_letters, readings)))


def _as_letters(codes: list[int]) -> str:
    """Return the letters of character codes, or of UTF-8 bytes; "" if one is not a letter."""
    if max(codes) > 255 or min(codes) < 32:
        return ""
    if all(code < 127 or code == 160 for code in codes):
        return "".join(map(chr, codes))
    try:
        said = bytes(codes).decode()
    except UnicodeDecodeError:
        return ""
    return said if said.replace("\u00a0", " ").isprintable() else ""


def _decode_base64_lines(match: re.Match[str]) -> str | None:
    return reads_as(match[0]) if "\n" in match[0] else None


def _decode_dump(match: re.Match[str]) -> str | None:
    """Return bytes as `xxd` prints them, with offsets before and letters after."""
    digits = "".join("".join(_DUMP_ROW.findall(match[0])).split())
    return as_text(bytes.fromhex(digits)) if len(digits) % 2 == 0 else None


def _decode_percent(match: re.Match[str]) -> str:
    return _visible(urllib.parse.unquote(match[0], errors="replace"))


def _decode_entities(match: re.Match[str]) -> str | None:
    said = html.unescape(match[0])
    return _visible(said) if said != match[0] else None


def _decode_escapes(match: re.Match[str]) -> str:
    return _visible(_ONE_ESCAPE.sub(_unescaped, match[0]))


def _decode_calls(match: re.Match[str]) -> str | None:
    """Return the letters of character calls such as `chr(52)+chr(49)` in a program."""
    return _of_codes(match[0]) or None


def _nothing(match: re.Match[str]) -> str:
    return ""


def _unescaped(match: re.Match[str]) -> str:
    code = int(match["hex"], 16) if match["hex"] else int(match["octal"], 8)
    return chr(code) if code < 0x110000 else ""


def _quoted(text: str) -> Iterator[TextEdit]:
    """Yield quoted-printable text, if there is more of it than a few assignments look like."""
    if text.count("=") < 2:
        return
    matches = list(_QUOTED.finditer(text))
    if sum(len(match[0]) for match in matches) < 6:
        return
    for match in matches:
        codes = re.sub(r"[=\r\n]", "", match[0])
        said = bytes.fromhex(codes).decode("utf-8", "replace")
        if said.replace("\u00a0", " ").isprintable():
            yield *match.span(), said


_IN_WORDS: tuple[tuple[int, Callable[[str, int, int], Iterator[TextEdit]]], ...] = (
    (8, _base64), (16, _base32), (12, _hex), (10, base85),
)  # fmt: skip
"""Decoders that work on one word at a time, each with the shortest length that it reads."""
_FINDERS: tuple[tuple[int, Callable[[str], Iterator[TextEdit]]], ...] = (
    (0, _rows), (0, _codes), (3, _quoted), (9, named_85), (2, uuencoded), (0, morse),
)  # fmt: skip
"""Each with the length of the shortest word in which it finds anything."""
_DECODERS: tuple[
    tuple[int, tuple[str, ...], re.Pattern[str], Callable[[re.Match[str]], str | None]], ...
] = (
    (40, ("\n",), _BASE64_LINES, _decode_base64_lines),
    (8, ("=?",), ENCODED_WORD, decode_word),
    (3, ("%",), _PERCENT, _decode_percent),
    (4, ("&",), _ENTITY, _decode_entities),
    (4, ("\\", "%u"), _ESCAPE, _decode_escapes),
    (0, ('"', "'", "`"), _PIECES, _nothing),  # concatenated strings such as `"sk-" + "abc"`
    (0, ("join(",), _LISTED, _nothing),
    (0, ("hr(",), _CALLS, _decode_calls),
    (0, ("<!--",), _COMMENT, _nothing),
    (0, ("><",), _TAGS, _nothing),
    (0, ("00000",), _DUMP, _decode_dump),
)
"""Each with that length, and texts of which every match has one."""


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
