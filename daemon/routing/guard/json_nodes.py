"""JSON with the place of each value, so that single strings can be replaced in the original."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec

DEEPEST = 100
"""Nested lists and objects."""

_TOKEN = re.compile(
    r'[ \t\r\n]*+(?:(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")|[{}\[\],:]|(?P<plain>[^\s"{}\[\],:]++))'
)
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
)


class NotJson(ValueError):
    """A text that is not JSON, or nested too deeply."""


@dataclass(slots=True)
class JsonNode:
    """A value, from character `start` up to `end` of the text."""

    start: int
    end: int


@dataclass(slots=True)
class JsonPlain(JsonNode):
    """A number, true, false or null."""

    text: str


@dataclass(slots=True)
class JsonString(JsonNode):
    """A string; `start` and `end` are those of its quotation marks."""

    text: str


@dataclass(slots=True)
class JsonObject(JsonNode):
    """An object; keys may repeat."""

    members: list[tuple[JsonString, JsonNode]] = field(
        default_factory=list[tuple[JsonString, JsonNode]]
    )

    def find(self, name: str) -> JsonNode | None:
        """Return the last value of this key, as most parsers do."""
        found = [value for key, value in self.members if key.text == name]
        return found[-1] if found else None

    def word(self, name: str) -> str:
        """Return the string of this key; empty if there is none."""
        value = self.find(name)
        return value.text if isinstance(value, JsonString) else ""


@dataclass(slots=True)
class JsonList(JsonNode):
    """A list."""

    items: list[JsonNode] = field(default_factory=list[JsonNode])


def read_nodes(text: str) -> JsonNode:
    """Return the value with the places of all values in it; raises `NotJson`."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise NotJson(str(error)) from None
    return _Reader(text).value(0)


class _Reader:
    """Reads a text that is known to be JSON."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._next()

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._place)
        self._match = match
        self._place = match.end() if match is not None else len(self._text)

    def _mark(self) -> str:
        """Return the last character of what was read."""
        return self._text[self._place - 1] if self._match is not None else ""

    def value(self, depth: int) -> JsonNode:
        if depth > DEEPEST or self._match is None:
            raise NotJson("it is nested too deeply")
        if self._match["string"] is not None:
            return self._string()
        end = self._match.end()
        if (plain := self._match["plain"]) is not None:
            self._next()
            return JsonPlain(end - len(plain), end, plain)
        return self._object(depth) if self._mark() == "{" else self._list(depth)

    def _string(self) -> JsonString:
        assert self._match is not None
        end, literal = self._match.end(), self._match["string"]
        self._next()
        text = literal[1:-1] if "\\" not in literal else str(json.loads(literal))
        return JsonString(end - len(literal), end, text)

    def _object(self, depth: int) -> JsonObject:
        found = JsonObject(self._place - 1, 0)
        self._next()
        while self._mark() != "}":
            key = self._string()
            self._next()  # the colon
            found.members.append((key, self.value(depth + 1)))
            self._skip_comma()
        found.end = self._place
        self._next()
        return found

    def _list(self, depth: int) -> JsonList:
        found = JsonList(self._place - 1, 0)
        self._next()
        while self._mark() != "]":
            found.items.append(self.value(depth + 1))
            self._skip_comma()
        found.end = self._place
        self._next()
        return found

    def _skip_comma(self) -> None:
        if self._mark() == ",":
            self._next()


def written_places(literal: str, places: Sequence[int]) -> list[int]:
    """Return where characters of a string's text are in `literal`, the string as it is written."""
    if "\\" not in literal:
        return [place + 1 for place in places]
    escapes = list(_ESCAPE.finditer(literal))
    longer = [0, *accumulate(len(match[0]) - 1 for match in escapes)]
    read = [match.start() - 1 - more for match, more in zip(escapes, longer, strict=False)]
    return [place + 1 + longer[bisect_left(read, place)] for place in places]


def replaced(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return the text with parts from start up to end replaced, in order and without overlaps."""
    pieces: list[str] = []
    at = 0
    for start, end, new in changes:
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])


def quoted(text: str) -> str:
    """Return the text as it is written within the quotation marks of a JSON string."""
    whole = text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)
    return json.dumps(text, ensure_ascii=not whole)[1:-1]
