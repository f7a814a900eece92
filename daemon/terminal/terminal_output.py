"""Output of commands: tables, sizes, durations, errors."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from textwrap import wrap

from .unsafe_characters import escaped_in_json, without_unsafe

_LABEL = 13
_NARROWEST = 20


def print_status(text: str) -> None:
    """Print progress to standard error; standard output is reserved for results."""
    print(strip_control_characters(text), file=sys.stderr, flush=True)


def print_error(message: str, hint: str | None) -> None:
    """Print one sentence to standard error, and a hint on the next line."""
    print_status(f"Error: {message}")
    if hint:
        print_status(hint)


def print_text(text: str) -> None:
    """Print lines to standard output, without terminal control characters."""
    print(strip_control_characters(text))


def print_json(value: object) -> None:
    """Print a value to standard output as indented JSON; structs are objects."""
    import msgspec

    text = json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
    print(escaped_in_json(text))


def confirmed(question: str) -> bool:
    """Ask on standard error; only "y" and "yes" confirm."""
    question = strip_control_characters(question)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def strip_control_characters(text: str) -> str:
    """Return the text without terminal control characters: names and errors can come from files.

    Newlines stay.
    """
    return without_unsafe(text).replace("\t", "")


def format_bytes(count: float) -> str:
    """Format in decimal units with three digits: "98.4 MB"; "-" for 0."""
    if count <= 0:
        return "-"
    units = ["B", "kB", "MB", "GB", "TB"]
    while count >= 999.5 and len(units) > 1:
        count /= 1000
        units.pop(0)
    digits = 0 if units[0] == "B" or count >= 99.95 else 1
    return f"{count:.{digits}f} {units[0]}"


def format_count(count: int) -> str:
    """Format a parameter count: "135M", "7.2B"; "-" for 0."""
    if count <= 0:
        return "-"
    for limit, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= limit * 0.9995:
            value = count / limit
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return str(count)


def counted(count: int, noun: str) -> str:
    """Format a count of something: "1 token", "17,203 tokens"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_seconds(seconds: float) -> str:
    """Format in two units at most: "0.4 s", "42 s", "14 min 26 s", "3 h 5 min", "2 d 4 h"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    total = round(seconds)
    for size, unit, smaller, smaller_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if total >= size:
            rest = total % size // smaller
            return f"{total // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    return f"{total} s"


def format_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "", columns: int = 0
) -> str:
    """Format rows under headers, with those named in `right` right-aligned.

    If the table is wider than `columns` (0: no limit) the first column is shortened, down to 12.
    """
    shown = ([strip_control_characters(cell).replace("\n", " ") for cell in row] for row in rows)
    cells = [list(headers), *shown]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
    excess = sum(widths) + 2 * (len(widths) - 1) - columns
    if columns and excess > 0:
        widths[0] = max(min(12, widths[0]), widths[0] - excess)
    to_the_right = [header in right.split() for header in headers]
    lines: list[str] = []
    for row in cells:
        parts = [
            _shorten(cell, width).rjust(width) if align else _shorten(cell, width).ljust(width)
            for cell, width, align in zip(row, widths, to_the_right, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> None:
    """Print `format_table`, within the width of the terminal."""
    print(format_table(headers, rows, right=right, columns=table_columns()))


def print_fields(facts: Sequence[tuple[str, str]]) -> None:
    """Print labels with their values, wrapped within the width of the terminal."""
    columns = table_columns()
    room = columns - _LABEL - 1
    for label, value in facts:
        text = strip_control_characters(value).replace("\n", " ")
        # Paths are not wrapped, since they are meant for copying.
        whole = columns <= 0 or len(text) <= room or label == "path"
        lines = [text] if whole else wrap(text, max(_NARROWEST, room), break_on_hyphens=False)
        for number, line in enumerate(lines):
            print(f"{'' if number else label:<{_LABEL}} {line}")


def table_columns() -> int:
    """Return the terminal's width, or 0 if a program reads the table."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def text_columns() -> int:
    """Return the width of wrapped text: the terminal's, or 80 if a program reads it."""
    return table_columns() or 80


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
