"""How a value is written at a place in a text: plainly, in a JSON string, or in one of code."""

from __future__ import annotations

import json
import re

_QUOTE = re.compile(r"\\.|[\"']")
_FENCE = re.compile(r"\s*(?:```|~~~)\s*(\w*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_JSON_START = re.compile(r"\s*[\[{]\s*(?:[\"\[{]|$)")
_JSON_INLINE = re.compile(r"[\[{]\s*[\"\[{]|^\s*\"[^\"]*\"\s*:")

NEEDS_ESCAPE = re.compile(r"[\x00-\x1f\"'\\]")
"""What cannot stand in a string as it is."""


class StringContext:
    """Follows a text in pieces of any size; `written` is for its end.

    `arguments`: it is the JSON of a tool's arguments. Other text contains JSON where a line looks
    like it, and code within fences. No string goes on in the next line.
    """

    def __init__(self, *, arguments: bool = False) -> None:
        self.arguments = arguments
        self._is_json: bool | None = arguments or None
        self._language: str | None = None
        """That of the current fence; None outside fences."""
        self._line: list[str] = []

    def feed(self, text: str) -> None:
        """Go on with more text."""
        *ended, last = text.split("\n")
        for line in ended:
            self._line.append(line)
            self._end_line("".join(self._line))
            self._line.clear()
        self._line.append(last)

    def written(self, value: str) -> str:
        """Return the value as it is written at the end of the text."""
        quote = self._open_quote()
        if quote == '"':
            return json.dumps(value, ensure_ascii=self.arguments)[1:-1]
        if quote and self._language == "sql":
            return value.replace("'", "''")
        if quote:
            escaped = json.dumps(value, ensure_ascii=False)[1:-1]
            return escaped.replace('\\"', '"').replace("'", "\\'")
        if self.arguments and not _NUMBER.fullmatch(value):
            return json.dumps(value)
        return value

    def read(self, written: str) -> str | None:
        """Return the value of a text that is written so at the end; None if there is none."""
        quote, value = self._open_quote(), written
        if quote == "'" and self._language == "sql":
            value = written.replace("''", "'")
        elif quote:
            quoted = written
            if quote == "'":
                quoted = written.replace('"', '\\"').replace("\\'", "'")
            try:
                value = str(json.loads(f'"{quoted}"'))
            except ValueError:
                return None
        return value if self.written(value) == written else None

    def _end_line(self, line: str) -> None:
        if self._is_json is None and line.strip():
            self._is_json = _JSON_START.match(line) is not None
        if not self._is_json and (fence := _FENCE.match(line)):
            self._language = fence[1].lower() if self._language is None else None

    def _open_quote(self) -> str:
        """Return the quotation mark that the end of the text is within, if any."""
        line, start, quote = "".join(self._line), 0, ""
        if not self._is_json and self._language is None:
            inline = _JSON_INLINE.search(line)
            if inline is None:
                return ""
            start = inline.start()
        for match in _QUOTE.finditer(line, start):
            if match[0] == quote:
                quote = ""
            elif not quote and (
                match[0] == '"' or (match[0] == "'" and self._language is not None)
            ):
                quote = match[0]
        return quote
