"""Decodes rarer encodings: base85, uuencode, encoded words of mail headers, Morse."""

from __future__ import annotations

import base64
import binascii
import quopri
import re
import zlib
from collections.abc import Callable, Iterator

from .text_edits import TextEdit

_MOST_DECODED = 65_536
_LEAST = 5


def as_text(data: bytes) -> str | None:
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


# RFC 1924's letters, as git and Python write them. Without a name beside it, a code needs some
# signs among its letters, or every long word would be tried.
_LETTERS_85 = r"0-9A-Za-z!#$%&()*+\-;<=>?@^_`{|}~"
_BASE85 = re.compile(rf"[{_LETTERS_85}]{{10,}}+")
_SIGNS_85 = frozenset("!#$%&*+;<=>?@^`{|}~")
_LEAST_SIGNS, _LEAST_BYTES = 2, 8
_NAMED_85 = re.compile(r"(?:base|ascii|[abz])[ _-]?85(?!\d)", re.IGNORECASE)
_NEAR_ITS_NAME = 400
_ADOBE = re.compile(r"<~([!-uz\s]{5,4000}?)~>")
_ASCII85 = re.compile(r"[!-uz]{10,}+")
_ZEROMQ = bytes.maketrans(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)
_ZEROMQ_LETTERS = re.compile(r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{10,}+")
_AROUND = ".,;:!?()\"'<>"
_UU = re.compile(r"begin [0-7]{3} [^\n]{1,80}\n((?:[ -`]{1,62}\r?(?:\n|\Z)){1,2000}?)(?:`|end|\Z)")
ENCODED_WORD = re.compile(r"=\?[\w-]{3,20}\?([QqBb])\?([^?\s]{1,800})\?=")
_MORSE_ROW = re.compile(r"(?<!\S)[.·-]{1,6}(?:[ /|]{1,3}[.·-]{1,6}){6,}+(?![.·-])")
_MORSE_SIGNS = (
    "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----. .- -... -.-. -.. . ..-. --. .... "
    ".. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. .--.-. .-.-.- "
    "-....- -..-. ..--.- .-.-."
)
_MORSE = dict(zip(_MORSE_SIGNS.split(), "0123456789abcdefghijklmnopqrstuvwxyz@.-/_+", strict=True))


def base85(text: str, begin: int, stop: int) -> Iterator[TextEdit]:
    """Yield Base85 by its letters, in one word."""
    if len(_SIGNS_85.intersection(text[begin:stop])) >= _LEAST_SIGNS:
        for match in _BASE85.finditer(text, begin, stop):
            if len(_SIGNS_85.intersection(match[0])) >= _LEAST_SIGNS:
                yield from _of_85(match, base64.b85decode)


def named_85(text: str) -> Iterator[TextEdit]:
    """Yield Base85, ASCII85 and Z85 if they are named, and between Adobe's markers."""
    if "<~" in text:
        for match in _ADOBE.finditer(text):
            said = _decoded(base64.a85decode, match[1].encode())
            if said is not None:
                yield *match.span(), said
    place, done = text.find("85"), 0
    while place >= 0:
        if _NAMED_85.search(text[max(0, place - 8) : place + 3]) is not None:
            begin, done = max(done, place + 2), place + 2 + _NEAR_ITS_NAME
            yield from _named_85(text, begin, done)
        place = text.find("85", place + 2)


def _named_85(text: str, begin: int, stop: int) -> Iterator[TextEdit]:
    for match in _BASE85.finditer(text, begin, stop):
        yield from _of_85(match, base64.b85decode)
    for match in _ASCII85.finditer(text, begin, stop):
        yield from _of_85(match, base64.a85decode)
    for match in _ZEROMQ_LETTERS.finditer(text, begin, stop):
        yield from _of_85(match, lambda code: base64.b85decode(code.translate(_ZEROMQ)))


def _of_85(match: re.Match[str], decode: Callable[[bytes], bytes]) -> Iterator[TextEdit]:
    """Decode a run of letters, or the run without surrounding signs that are letters of the code,
    too.
    """
    code = match[0]
    if match.string[match.end() : match.end() + 1] == "/":
        code = code.removesuffix("<")  # the end of an element
    for core in (code, code.rstrip(_AROUND), code.strip(_AROUND)):
        said = _decoded(decode, core.encode()) if len(core) >= 10 else None
        if said is not None:
            start = match.start() + code.index(core)
            yield start, start + len(core), said
            return


def _decoded(decode: Callable[[bytes], bytes], code: bytes) -> str | None:
    try:
        data = decode(code)
    except (ValueError, OverflowError):
        return None
    said = as_text(data) if len(data) >= _LEAST_BYTES else None
    plain = said.strip("\0").replace("\u00a0", " ") if said is not None else ""
    return said if plain.isprintable() else None


def uuencoded(text: str) -> Iterator[TextEdit]:
    """Yield files encoded with `uuencode`."""
    if "begin " not in text:
        return
    for match in _UU.finditer(text):
        try:
            data = b"".join(map(binascii.a2b_uu, match[1].splitlines()))
        except binascii.Error:
            continue
        said = as_text(data)
        if said is not None:
            yield match.start(1), match.end(1), said + "\n"


def decode_word(match: re.Match[str]) -> str | None:
    """Return the text of `=?utf-8?Q?…?=` in a mail header (RFC 2047)."""
    try:
        if match[1] in "Qq":
            data = quopri.decodestring(match[2].encode(), header=True)
        else:
            data = base64.b64decode(match[2] + "=" * (-len(match[2]) % 4))
    except (binascii.Error, ValueError):
        return None
    return as_text(data)


def morse(text: str) -> Iterator[TextEdit]:
    """Yield rows of dots and dashes."""
    if "... " not in text and "--- " not in text and "---/" not in text:
        return
    for match in _MORSE_ROW.finditer(text):
        # A last single dot is the end of a sentence.
        row = match[0].replace("·", ".").removesuffix(" .")
        said = "".join(_MORSE.get(sign, "") for sign in re.findall(r"[.-]+", row))
        if "@" in said or sum(map(str.isdigit, said)) > 3:
            yield match.start(), match.start() + len(row), said
