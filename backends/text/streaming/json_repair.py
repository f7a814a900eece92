"""Repairs JSON written by models, incrementally."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Literal

from .text_source import Steps, TextSource, pass_until

Emit = Callable[[str], None]

MOST_NESTED = 100
"""Nesting limit; deeper values become null, since readers have limits too."""

_LONGEST_NUMBER = 1000  # readers reject numbers of several thousand digits
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS = {
    **dict.fromkeys(("true", "True"), "true"),
    **dict.fromkeys(("false", "False"), "false"),
    **dict.fromkeys(("null", "None", "undefined", "NaN", "Infinity", "-Infinity"), "null"),
}
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_JSON = {"{": "{", "}": "}", "[": "[", "]": "]", "(": "[", ")": "]"}
_QUOTES = ("'", '"')
_Expected = Literal["key", "colon", "value", "end"]


def read_value(
    source: TextSource,
    emit: Emit,
    ends: Sequence[str] = (),
    *,
    mark: str = "",
    closed_by: str = "",
) -> Steps[None]:
    """Read one value and emit it as valid JSON, repairing errors.

    A text in `ends` outside a string, or the end of the text, completes it. Strings may stand
    between two `mark`s, without escapes. If the value is a string, it is `closed_by` as in
    `read_text`.
    """
    yield from _Value(source, emit, ends, mark, closed_by).read()


def quoted(text: str) -> str:
    """Return a text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def plain_value(text: str) -> str:
    """Return a number, literal or bare word as JSON."""
    literal = _LITERALS.get(text)
    if literal is not None:
        return literal
    if len(text) <= _LONGEST_NUMBER:
        if _NUMBER.fullmatch(text):
            return text if math.isfinite(float(text)) else quoted(text)
        try:
            number = json.dumps(float(text.replace("_", "") if text[:1].isdigit() else text))
        except ValueError:
            return quoted(text)
        return number if _NUMBER.fullmatch(number) else quoted(text)
    return quoted(text)


class _Value:
    """Parser state of one value: the open containers and what is expected next."""

    def __init__(
        self, source: TextSource, emit: Emit, ends: Sequence[str], mark: str, closed_by: str
    ) -> None:
        self._source = source
        self._mark = mark
        self._closed_by = closed_by
        self._emit_checked = emit
        self._ends = ends
        self._first_of_ends = frozenset(end[0] for end in ends)
        self._closers: list[str] = []
        self._has_members: list[bool] = []
        self._expected: _Expected = "value"
        self._done = False

    def read(self) -> Steps[None]:
        """Read the value."""
        steps = {
            "key": self._read_key,
            "colon": self._read_colon,
            "value": self._read_member,
            "end": self._read_end,
        }
        while not self._done:
            yield from self._source.skip_space()
            char = yield from self._source.peek()
            if not char or (yield from self._at_end(char)):
                self._complete()
            else:
                yield from steps[self._expected](char)

    def _at_end(self, char: str) -> Steps[bool]:
        if char not in self._first_of_ends:
            return False
        return bool((yield from self._source.at(self._ends)))

    def _emit(self, text: str) -> None:
        if len(self._closers) <= MOST_NESTED:
            self._emit_checked(text)

    def _complete(self) -> None:
        """Close all open containers."""
        if self._expected == "colon" or (self._expected == "value" and self._in_object):
            self._emit(":null" if self._expected == "colon" else "null")
        elif self._expected == "value" and not self._closers:
            self._emit("null")
        while self._closers:
            self._pop()
        self._done = True

    @property
    def _in_object(self) -> bool:
        return bool(self._closers) and self._closers[-1] == "}"

    def _read_key(self, char: str) -> Steps[None]:
        if char in "}])":
            yield from self._close(char)
        elif char in ",;":
            self._source.take(1)
        else:
            self._separate()
            if char in _QUOTES:
                yield from read_text(self._source, self._emit, closed_by=":=,}", ends=self._ends)
            elif not (yield from self._read_marked(char)):
                self._emit(quoted((yield from self._bare(":=,}]\n"))))
            self._expected = "colon"

    def _read_colon(self, char: str) -> Steps[None]:
        if char in ",}":
            self._emit(":null")
            self._expected = "end"
            return
        if char in ":=":
            self._source.take(1)
        self._emit(":")
        self._expected = "value"
        yield from ()

    def _read_member(self, char: str) -> Steps[None]:
        """Read a value: of a key, in an array, or the only one."""
        if self._closers and not self._in_object:
            if char in "}])":
                yield from self._close(char)
                return
            if char in ",;":
                self._source.take(1)
                return
            self._separate()
        if char in _CLOSERS:
            self._source.take(1)
            self._open(char)
            return
        if char in "}]),":  # a missing value
            self._emit("null")
        elif char in _QUOTES:
            closed_by = ",}]" + self._round if self._closers else self._closed_by
            yield from read_text(self._source, self._emit, closed_by=closed_by, ends=self._ends)
        elif not (yield from self._read_marked(char)):
            self._emit(plain_value((yield from self._bare(",}]\n" + self._round))))
        self._after_value()

    def _read_marked(self, char: str) -> Steps[bool]:
        """Read a string between marks, if there is one here."""
        if char != self._mark[:1] or not (yield from self._source.accept(self._mark)):
            return False
        self._emit('"')
        yield from pass_until(self._source, [self._mark], lambda text: self._emit(escaped(text)))
        self._emit('"')
        return True

    @property
    def _round(self) -> str:
        """Return a round bracket if one may end a value."""
        return ")" if not self._closers or ")" in self._closers else ""

    def _read_end(self, char: str) -> Steps[None]:
        if char in "}])":
            yield from self._close(char)
        elif char in ",;:":
            self._source.take(1)
            self._expected = "key" if self._in_object else "value"
        else:  # a missing comma
            self._expected = "key" if self._in_object else "value"

    def _separate(self) -> None:
        """Emit a comma; called only when something follows it."""
        if self._has_members[-1]:
            self._emit(",")
        self._has_members[-1] = True

    def _open(self, char: str) -> None:
        if len(self._closers) == MOST_NESTED:
            self._emit("null")
        self._closers.append(_CLOSERS[char])
        self._has_members.append(False)
        self._emit(_JSON[char])
        self._expected = "key" if char == "{" else "value"

    def _close(self, char: str) -> Steps[None]:
        """Close the innermost container of this kind, and unclosed ones within it."""
        self._source.take(1)
        if char in self._closers:
            while self._pop() != char:
                continue
            self._after_value()
        yield from ()

    def _pop(self) -> str:
        self._emit(_JSON[self._closers[-1]])
        self._has_members.pop()
        return self._closers.pop()

    def _after_value(self) -> None:
        self._expected = "end"
        self._done = not self._closers

    def _bare(self, stops: str) -> Steps[str]:
        """Read an unquoted word of at least one character, up to a character that may follow it."""
        word = [self._source.take(1)]
        while char := (yield from self._source.peek()):
            if char in stops or (yield from self._at_end(char)):
                break
            word.append(self._source.take(1))
        return "".join(word).strip()


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
