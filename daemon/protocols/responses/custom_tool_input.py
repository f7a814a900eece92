"""The text that a custom tool gets, out of the JSON that a model writes for it."""

from __future__ import annotations

import json
import re
from typing import Any, cast

_BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]")
_ESCAPE_LENGTH = 6
"""Characters of the longest escape; two of them may stand for one character."""


class CustomToolInput:
    """Reads `{"input": "..."}` in pieces; JSON of any other form is read at its end."""

    def __init__(self) -> None:
        self._arguments = ""
        self._at: int | None = None
        self._closed = False

    def push(self, piece: str) -> str:
        """The text that became certain."""
        self._arguments += piece
        if self._at is None:
            begin = _BEGIN.match(self._arguments)
            if begin is None:
                return ""
            self._at = begin.end()
        return self._certain(self._at)

    def finish(self) -> str:
        """The rest of the text, now that no more follows."""
        if self._at is None:
            return _any_text(self._arguments)
        # A string without its closing quote, or an invalid escape.
        return "" if self._closed else self._arguments[self._at :]

    def _certain(self, start: int) -> str:
        """Whole characters and escapes from `start` on, up to the closing quote."""
        if self._closed:
            return ""
        at, text = start, self._arguments
        while at < len(text):
            if text[at] == '"':
                self._closed = True
                break
            if text[at] != "\\":
                at += 1
                continue
            escape = _ESCAPE.match(text, at)
            if escape is None or self._may_be_half(escape):
                break
            at = escape.end()
        self._at = at
        return _unescaped(text[start:at])

    def _may_be_half(self, escape: re.Match[str]) -> bool:
        """Whether the other half of the character may still come."""
        rest = self._arguments[escape.end() :]
        is_high = _HIGH_SURROGATE.match(escape.group()) is not None
        return is_high and len(rest) < _ESCAPE_LENGTH and rest[:1] in ("", "\\")


def _unescaped(piece: str) -> str:
    """The text of a string's inside; half a pair that stays alone becomes a question mark."""
    text = cast("str", json.loads(f'"{piece}"', strict=False))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _any_text(arguments: str) -> str:
    try:
        value: Any = json.loads(arguments)
    except ValueError:
        return arguments
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        texts = [text for text in fields.values() if isinstance(text, str)]
        if isinstance(fields.get("input"), str):
            return fields["input"]
        if len(texts) == 1:
            return texts[0]
    return arguments
