"""How a value is written at a place in a text: plainly, in a JSON string, or in one of code."""

from __future__ import annotations

import json
import re

_SPECIAL = re.compile(r"[\\\"']")
_FENCE = re.compile(r"\s*(?:```|~~~)\s*(\w*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_HEAD = 80

NEEDS_ESCAPE = re.compile(r"[\x00-\x1f\"'\\]")
"""What cannot stand in a string as it is."""


class StringContext:
    """Follows a text in pieces of any size; `written` is for its end.

    `arguments`: it is the JSON of a tool's arguments. Other text is JSON if it begins like it, and
    code within fences.
    """

    def __init__(self, *, arguments: bool = False) -> None:
        self.arguments = arguments
        self._is_json: bool | None = True if arguments else None
        self._lead = ""
        self._language: str | None = None
        """That of the current fence; None outside fences."""
        self._head = ""
        self._quote = ""
        self._length = 0
        self._escaped = -1

    def feed(self, text: str) -> None:
        """Go on with more text."""
        if self._is_json is None:
            self._lead += text
            self._is_json = _begins_json(self._lead)
            if self._is_json is None:
                return
            text, self._lead = self._lead, ""
        for number, line in enumerate(text.split("\n")):
            if number:
                self._end_line()
            self._head = (self._head + line)[:_HEAD]
            if self._is_json or self._language is not None:
                self._follow(line)
            self._length += len(line)

    def written(self, value: str) -> str:
        """Return the value as it is written at the end of the text."""
        if self._quote == '"':
            return json.dumps(value, ensure_ascii=self.arguments)[1:-1]
        if self._quote and self._language == "sql":
            return value.replace("'", "''")
        if self._quote:
            return (
                json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
            )
        if self.arguments and not _NUMBER.fullmatch(value):
            return json.dumps(value)
        return value

    def read(self, written: str) -> str | None:
        """Return the value of a text that is written so at the end; None if there is none."""
        value = written
        if self._quote and self._language == "sql":
            value = written.replace("''", "'")
        elif self._quote:
            quoted = written if self._quote == '"' else _requoted(written)
            try:
                value = str(json.loads(f'"{quoted}"'))
            except ValueError:
                return None
        return value if self.written(value) == written else None

    def _end_line(self) -> None:
        if not self._is_json and (fence := _FENCE.match(self._head)):
            self._language = fence[1].lower() if self._language is None else None
        self._head = self._quote = ""
        self._length += 1

    def _follow(self, line: str) -> None:
        for match in _SPECIAL.finditer(line):
            at, character = self._length + match.start(), match[0]
            if at == self._escaped:
                continue
            if character == "\\":
                self._escaped = at + 1
            elif character == self._quote:
                self._quote = ""
            elif not self._quote and (character == '"' or not self._is_json):
                self._quote = character


def _begins_json(text: str) -> bool | None:
    """Whether a text is JSON, by its beginning; None if that is too short."""
    start = text.lstrip()
    if start[:1] != "[":
        return start[0] == "{" if start else None
    inner = start[1:].lstrip()
    return inner[0] in '[{"' if inner else None


def _requoted(written: str) -> str:
    return written.replace('"', '\\"').replace("\\'", "'")
