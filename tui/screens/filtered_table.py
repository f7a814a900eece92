"""`FilteredTable`: a table over the chat that typing filters; its subclasses list the commands."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from ..commands.command_table import Command
from ..commands.key_table import KeyTable, skeleton
from .dialog import Dialog

KEY_WIDTH = 16
SLASH_WIDTH = 22
NARROW = 64
"""Columns below which the second word of a row is appended to its text."""


@dataclass(frozen=True, slots=True)
class Row:
    """A key or name, a second word such as the slash command, and a description."""

    key: str
    word: str
    text: str

    def fits(self, typed: str) -> bool:
        """Whether it contains every typed word."""
        whole = f"{self.key} {self.word} {self.text}".lower()
        return all(part in whole for part in typed.lower().split())

    def lines(self, width: int, words: int) -> list[Content]:
        """The row in columns, the second of `words` cells; the text is wrapped in its column.

        Behind a word that is too long for its column the text begins on the next line.
        """
        indent = KEY_WIDTH + words
        text = self.text if words else f"{self.text}  {self.word}".rstrip()
        parts = textwrap.wrap(text, max(10, width - indent)) or [""]
        if words and len(self.word) >= words:
            parts.insert(0, "")
        first = Content.assemble(
            (self.key.ljust(KEY_WIDTH), "$primary"),
            (self.word.ljust(words) if words else "", "$muted"),
            parts[0],
        )
        return [first, *(Content(" " * indent + part) for part in parts[1:])]


class FilteredTable(Dialog[None]):
    """Shows rows under headings; typing filters them."""

    DEFAULT_CSS = """
    FilteredTable #filter {
        border: none; height: 1; padding: 0; background: $surface; margin-bottom: 1;
    }
    FilteredTable #rows { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    FilteredTable #table { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "dismiss", "Close", show=False, priority=True),
        Binding("up", "scroll(-1)", "Up", show=False, priority=True),
        Binding("down", "scroll(1)", "Down", show=False, priority=True),
        Binding("pageup", "scroll(-10)", "Page up", show=False, priority=True),
        Binding("pagedown", "scroll(10)", "Page down", show=False, priority=True),
    ]

    def __init__(self, heading: str, sections: dict[str, list[Row]], legend: str) -> None:
        super().__init__(heading, legend)
        self._sections = sections

    def body(self) -> ComposeResult:
        """The filter, and the rows."""
        filter_line = Input(placeholder="type to filter", id="filter", compact=True)
        filter_line.cursor_blink = False
        yield filter_line
        with VerticalScroll(id="rows", can_focus=False):
            yield Static(id="table", markup=False)

    def on_mount(self) -> None:
        """Focus the filter."""
        self.query_one(Input).focus()
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        """Lay the rows out for the new width."""
        self.call_after_refresh(self._show)

    @on(Input.Changed)
    def _filter(self) -> None:
        self._show()
        self.query_one("#rows", VerticalScroll).scroll_home(animate=False)

    def action_scroll(self, lines: int) -> None:
        """Scroll the rows."""
        self.query_one("#rows", VerticalScroll).scroll_relative(y=lines, animate=False)

    def _show(self) -> None:
        typed = self.query_one(Input).value
        width = max(20, self.query_one("#table").size.width)
        lines: list[Content] = []
        for heading, rows in self._sections.items():
            fitting = [row for row in rows if row.fits(typed)]
            if fitting:
                lines += [Content("")] if lines else []
                lines.append(Content(heading).stylize("bold $secondary"))
                words = SLASH_WIDTH if width >= NARROW and any(row.word for row in rows) else 0
                lines += [line for row in fitting for line in row.lines(width, words)]
        if not lines:
            lines = [Content("Nothing matches.").stylize("$muted")]
        self.query_one("#table", Static).update(Content("\n").join(lines))


def _command_sections(
    commands: Sequence[Command], row: Callable[[Command], Row]
) -> dict[str, list[Row]]:
    """A row of each command under the heading of its group."""
    sections: dict[str, list[Row]] = {}
    for command in commands:
        sections.setdefault(command.group, []).append(row(command))
    return sections


class HelpScreen(FilteredTable):
    """The keys `here`, of the focused widget, under the heading `title`; then every command."""

    def __init__(
        self,
        here: Sequence[tuple[str, str]],
        commands: Sequence[Command],
        keys: KeyTable,
        *,
        title: str,
    ) -> None:
        sections = _command_sections(
            commands, lambda each: Row(keys.shown_keys(each), each.usage, each.help)
        )
        sections.setdefault("Program", []).append(Row("ctrl+p", "", "Every command, by name"))
        here_section = {title: [Row(key, "", text) for key, text in here]} if here else {}
        super().__init__(
            "Help", here_section | sections, "↑↓ scrolls  ·  esc closes  ·  /keys changes keys"
        )


class KeysScreen(FilteredTable):
    """The keys of all commands; `file` is the user's key file, None if settings are not kept."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "write", "Write the file", show=False, priority=True)
    ]

    def __init__(self, commands: Sequence[Command], table: KeyTable, file: Path | None) -> None:
        self._file = file
        hint = "" if file is None else f"  ·  ctrl+s writes a file to change: {file}"

        def row(command: Command) -> Row:
            own = "  (yours)" if command.name in table.own else ""
            keys = " ".join(table.keys_of(command)) or "–"
            return Row(keys, command.name, command.help + own)

        skipped = [Row("!", "", problem) for problem in table.problems]
        sections = {"Skipped": skipped} if skipped else {}
        super().__init__("Keys", sections | _command_sections(commands, row), f"esc closes{hint}")

    async def action_write(self) -> None:
        """Write a file with every command, unless there is one."""
        file = self._file
        if file is None:
            return
        try:
            await asyncio.to_thread(_write_new, file)
        except FileExistsError:
            self.notify(f"{file} exists already; it is read when the chat starts.", markup=False)
        except OSError as error:
            self.notify(f"{file}: {error.strerror}.", severity="error", markup=False)
        else:
            self.notify(f"Written: {file}. It is read when the chat starts.", markup=False)


def _write_new(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.open("x", encoding="utf-8") as opened:
        opened.write(skeleton())
