"""Edits TOML line by line: top-level keys and whole tables; all other text stays as written."""

from __future__ import annotations

import json
import re
import tomllib
from typing import cast

from .document_path import ABSENT, CannotEdit, DocumentItem, Path, find

_HEADER = re.compile(r"\s*\[")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class TOMLDocument:
    """One text; the caller checks that an edit has the intended effect."""

    def __init__(self, text: str) -> None:
        """Raises `CannotEdit` if it is not TOML."""
        try:
            self.data: object = tomllib.loads(text.removeprefix("\ufeff"))
        # ValueError also for numbers with too many digits.
        except (ValueError, RecursionError) as error:
            raise CannotEdit(f"It is not TOML: {error}.") from None
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._lines = text.splitlines(keepends=True)

    def changed(self, path: Path, value: object) -> str:
        """Return the text with `value` at the path: a plain value, or a table of plain values."""
        names = _names(path)
        if isinstance(value, dict):
            return self._with_table(names, cast("dict[str, object]", value))
        if len(names) == 1:
            return self._with_key(names[0], value)
        table = find(self.data, path[:-1])
        members = {} if table is ABSENT else cast("dict[str, object]", table)
        return self._with_table(names[:-1], {**members, names[-1]: value})

    def without(self, path: Path) -> str:
        """Return the text without the key or the table at the path."""
        names = _names(path)
        start = self._header(names)
        if start is not None:
            end = self._end_of_table(start)
            before = self._lines[:start]
            while before and not before[-1].strip():
                before.pop()
            after = self._lines[end:]
            return "".join(before) + (self._newline if before and after else "") + "".join(after)
        if len(names) == 1 and (line := self._key_line(names[0])) is not None:
            return "".join(self._lines[:line] + self._lines[line + 1 :])
        raise CannotEdit(
            f"'{'.'.join(names)}' in it is written in a way that ingle does not change."
        )

    def _with_key(self, name: str, value: object) -> str:
        written = f"{_key(name)} = {_value(value)}"
        line = self._key_line(name)
        lines = list(self._lines)
        if line is not None:
            comment = re.search(r"\s+#[^\"']*$", lines[line].rstrip("\r\n"))
            lines[line] = written + (comment[0] if comment else "") + self._newline
            return "".join(lines)
        top = self._top_lines()
        keys = [number for number in range(top) if re.match(r"\s*[\w\"'-]", lines[number])]
        at = keys[-1] + 1 if keys else top
        if not keys:
            # Comments above the first table belong to it.
            while at and lines[at - 1].lstrip().startswith("#"):
                at -= 1
        if at and not lines[at - 1].endswith("\n"):
            lines[at - 1] += self._newline
        gap = [self._newline] if not keys and at < len(lines) else []
        return "".join([*lines[:at], written + self._newline, *gap, *lines[at:]])

    def _with_table(self, names: list[str], table: dict[str, object]) -> str:
        header = "[" + ".".join(_key(name) for name in names) + "]"
        body = [f"{_key(name)} = {_value(value)}" for name, value in table.items()]
        block = "".join(line + self._newline for line in [header, *body])
        start = self._header(names)
        if start is not None:
            end = self._end_of_table(start)
            return "".join(self._lines[:start]) + block + "".join(self._lines[end:])
        text = "".join(self._lines)
        if text and not text.endswith("\n"):
            text += self._newline
        return text + (self._newline if text.strip() else "") + block

    def _top_lines(self) -> int:
        headers = (n for n, line in enumerate(self._lines) if _HEADER.match(line))
        return next(headers, len(self._lines))

    def _key_line(self, name: str) -> int | None:
        pattern = re.compile(rf"\s*(?:{re.escape(name)}|\"{re.escape(name)}\")\s*=")
        lines = self._lines[: self._top_lines()]
        return next((n for n, line in enumerate(lines) if pattern.match(line)), None)

    def _header(self, names: list[str]) -> int | None:
        inner = r"\s*\.\s*".join(rf"(?:{re.escape(n)}|\"{re.escape(n)}\")" for n in names)
        pattern = re.compile(rf"\s*\[\s*{inner}\s*\]\s*(?:#.*)?$")
        return next((n for n, line in enumerate(self._lines) if pattern.match(line)), None)

    def _end_of_table(self, start: int) -> int:
        """Return the line after the table's last key."""
        end = start + 1
        for number in range(start + 1, len(self._lines)):
            if _HEADER.match(self._lines[number]):
                break
            if self._lines[number].strip() and not self._lines[number].lstrip().startswith("#"):
                end = number + 1
        return end


def _names(path: Path) -> list[str]:
    if any(isinstance(part, DocumentItem) for part in path):
        raise CannotEdit("It is TOML, whose lists ingle does not change.")
    return [cast("str", part) for part in path]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: object) -> str:
    # JSON strings, numbers, booleans and lists of them are valid TOML, too.
    return json.dumps(value, ensure_ascii=False)
