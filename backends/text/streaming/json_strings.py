"""Converts strings as models write them to JSON strings, incrementally."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from .text_source import Steps, TextSource

_PLAIN = re.compile(r"[^\"'\\\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_HEX = re.compile(r"[0-9a-fA-F]+")
_SIMPLE = frozenset('"\\/bfnrt')
_PYTHON = {"'": "'", "a": "\\u0007", "v": "\\u000b", "0": "\\u0000", "\n": "\\n"}
_ESCAPE_LENGTH = {"x": 2, "u": 4, "U": 8}


def escaped(text: str) -> str:
    """Return a text escaped for a JSON string, without quotes."""
    whole = text.encode("utf-8", "replace").decode() if not text.isascii() else text
    return json.dumps(whole, ensure_ascii=False)[1:-1]


def read_text(
    source: TextSource, emit: Callable[[str], None], *, closed_by: str, ends: Sequence[str] = ()
) -> Steps[None]:
    """Read a string from its quote on, and emit it as a JSON string.

    A quote ends it only if followed by one of the characters in `closed_by`, another quote, one of
    `ends` or nothing; with `closed_by` empty, any quote ends it. Three quotes end with three.
    """
    quote = (yield from source.accept('"""', "'''")) or source.take(1)
    emit('"')
    while not source.exhausted:
        run = source.take_run(_PLAIN)
        if run:
            emit(run)
            continue
        char = yield from source.peek()
        if not char or _PLAIN.match(char):
            continue
        if char == "\\":
            emit((yield from _escape(source)))
        elif char == quote[0] and (yield from source.accept(quote)):
            if len(quote) == 3 or (yield from _closes(source, closed_by, ends)):
                break
            emit(escaped(quote))
        else:
            emit(escaped(source.take(1)))
    emit('"')


def _closes(source: TextSource, closed_by: str, ends: Sequence[str]) -> Steps[bool]:
    """Return whether the preceding quote ended the string."""
    if not closed_by:
        return True
    char = yield from source.ahead()
    return not char or char in closed_by or char in "\"'" or any(end[0] == char for end in ends)


def _escape(source: TextSource) -> Steps[str]:
    """Read a backslash and its escape sequence."""
    there = yield from source.peek(2)
    source.take(2)
    char = there[1:]
    if char in _SIMPLE and char:
        return there
    if char in _ESCAPE_LENGTH:
        return (yield from _code(source, char))
    if char in _PYTHON:
        return _PYTHON[char]
    return "\\\\" + escaped(char)


def _code(source: TextSource, kind: str) -> Steps[str]:
    """Return the character of a numeric escape of this kind."""
    number = yield from _hex(source, _ESCAPE_LENGTH[kind])
    if number is None:
        return "\\\\" + kind
    if 0xD800 <= number < 0xDC00 and (yield from source.peek(2)) == "\\u":
        ahead = yield from source.peek(6)
        low = int(ahead[2:], 16) if _HEX.fullmatch(ahead[2:]) and len(ahead) == 6 else 0
        if 0xDC00 <= low < 0xE000:
            source.take(6)
            number = 0x10000 + ((number - 0xD800) << 10) + low - 0xDC00
    known = number < 0xD800 or 0xE000 <= number < 0x110000
    return escaped(chr(number)) if known else "\\ufffd"


def _hex(source: TextSource, count: int) -> Steps[int | None]:
    digits = yield from source.peek(count)
    if len(digits) < count or not _HEX.fullmatch(digits):
        return None
    return int(source.take(count), 16)
