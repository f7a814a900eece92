"""Edits TOML line by line: keys, and whole tables, also in lists; other text stays as written."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import cast

from .document_path import CannotEdit, DocumentItem, Path, find

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
        """Return the text with `value` at the path: a plain value, or a table of plain values.

        A table may be an item of a list, `[[name]]`; it is found by its own keys.
        """
        if isinstance(path[-1], DocumentItem):
            names = _names(path[:-1])
            start = self._item(names, path[-1])
            return self._with_block(start, f"[[{_dotted(names)}]]", _fields(value))
        names = _names(path)
        if isinstance(value, dict):
            fields = _fields(cast("dict[str, object]", value))
            return self._with_block(self._header(names), f"[{_dotted(names)}]", fields)
        if len(names) == 1:
            return self._with_key(names[0], value)
        start = self._header(names[:-1])
        written = f"{_key(names[-1])} = {_value(value)}"
        if start is None:
            return self._with_block(None, f"[{_dotted(names[:-1])}]", [written])
        end = self._end_of_table(start)
        line = self._key_line(names[-1], start + 1, end)
        first, rest = (end, end) if line is None else (line, line + 1)
        return self._with_lines(first, rest, [written])

    def without(self, path: Path) -> str:
        """Return the text without the key or the table at the path."""
        if isinstance(path[-1], DocumentItem):
            names = _names(path[:-1])
            start = self._item(names, path[-1])
        else:
            names = _names(path)
            start = self._header(names)
        if start is not None:
            end = self._end_of_table(start)
            before = self._lines[:start]
            while before and not before[-1].strip():
                before.pop()
            after = self._lines[end:]
            return "".join(before) + (self._newline if before and after else "") + "".join(after)
        line = None
        if len(names) == 1 and names == list(path):
            line = self._key_line(names[0], 0, self._top_lines())
        elif (table := self._header(names[:-1])) is not None:
            line = self._key_line(names[-1], table + 1, self._end_of_table(table))
        if line is not None:
            return "".join(self._lines[:line] + self._lines[line + 1 :])
        raise CannotEdit(
            f"'{'.'.join(names)}' in it is written in a way that ingle does not change."
        )

    def _with_key(self, name: str, value: object) -> str:
        written = f"{_key(name)} = {_value(value)}"
        line = self._key_line(name, 0, self._top_lines())
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

    def _with_block(self, start: int | None, header: str, fields: list[str]) -> str:
        """Return the text with this table in place of the one at a line, else at the end."""
        if start is not None:
            return self._with_lines(start, self._end_of_table(start), [header, *fields])
        gap = [""] if "".join(self._lines).strip() else []
        end = len(self._lines)
        return self._with_lines(end, end, [*gap, header, *fields])

    def _with_lines(self, first: int, rest: int, written: list[str]) -> str:
        """Return the text with these lines in place of those from `first` up to `rest`."""
        before = "".join(self._lines[:first])
        if before and not before.endswith("\n"):
            before += self._newline
        block = "".join(line + self._newline for line in written)
        return before + block + "".join(self._lines[rest:])

    def _top_lines(self) -> int:
        headers = (n for n, line in enumerate(self._lines) if _HEADER.match(line))
        return next(headers, len(self._lines))

    def _key_line(self, name: str, first: int, end: int) -> int | None:
        pattern = re.compile(rf"\s*(?:{re.escape(name)}|\"{re.escape(name)}\")\s*=")
        return next((n for n in range(first, end) if pattern.match(self._lines[n])), None)

    def _header(self, names: list[str]) -> int | None:
        return next(self._headers(names, "[", "]"), None)

    def _item(self, names: list[str], wanted: DocumentItem) -> int | None:
        """Return the line at which the item of a list of tables begins."""
        items = find(self.data, tuple(names))
        known = cast("list[object]", items) if isinstance(items, list) else []
        headers = list(self._headers(names, "[[", "]]"))
        if len(headers) != len(known):
            raise CannotEdit(
                f"'{'.'.join(names)}' in it is written in a way that ingle does not change."
            )
        found = (line for line, item in zip(headers, known, strict=True) if wanted.matches(item))
        return next(found, None)

    def _headers(self, names: list[str], opens: str, closes: str) -> Iterator[int]:
        inner = r"\s*\.\s*".join(rf"(?:{re.escape(n)}|\"{re.escape(n)}\")" for n in names)
        pattern = re.compile(rf"\s*{re.escape(opens)}\s*{inner}\s*{re.escape(closes)}\s*(?:#.*)?$")
        return (n for n, line in enumerate(self._lines) if pattern.match(line))

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


def _fields(table: object) -> list[str]:
    members = cast("dict[str, object]", table)
    return [f"{_key(name)} = {_value(value)}" for name, value in members.items()]


def _dotted(names: list[str]) -> str:
    return ".".join(map(_key, names))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(_fields(cast("dict[str, object]", value))) + " }"
    # JSON strings, numbers, booleans and lists of them are valid TOML, too.
    return json.dumps(value, ensure_ascii=False)
