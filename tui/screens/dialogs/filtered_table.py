"""`FilteredTable`: a table over the chat that is narrowed by typing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

KEY_WIDTH = 16
SLASH_WIDTH = 22
NARROW = 64
"""Below so many columns the second of three columns goes under the first."""


@dataclass(frozen=True, slots=True)
class Row:
    """A key or name, a second word such as the slash command, and what they do."""

    key: str
    word: str
    text: str

    def fits(self, typed: str) -> bool:
        """Whether it has every word that was typed."""
        whole = f"{self.key} {self.word} {self.text}".lower()
        return all(part in whole for part in typed.lower().split())


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under a heading."""

    heading: str
    rows: Sequence[Row]


class FilteredTable(ModalScreen[None]):
    """Shows sections of rows; what is typed leaves the rows that contain it."""

    DEFAULT_CSS = """
    FilteredTable #filter {
        border: none; height: 1; padding: 0; background: $surface; margin-bottom: 1;
    }
    FilteredTable #rows { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    FilteredTable #table { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "dismiss", "Close", show=False, priority=True),
        Binding("up", "scroll(-1)", "Up", show=False, priority=True),
        Binding("down", "scroll(1)", "Down", show=False, priority=True),
        Binding("pageup", "scroll(-10)", "Page up", show=False, priority=True),
        Binding("pagedown", "scroll(10)", "Page down", show=False, priority=True),
    ]

    def __init__(self, heading: str, sections: Sequence[Section], hint: str) -> None:
        super().__init__()
        self._heading = heading
        self._sections = sections
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._heading).stylize("bold $primary"), classes="dialog-title")
            filter_line = Input(placeholder="type to filter", id="filter", compact=True)
            filter_line.cursor_blink = False
            yield filter_line
            with VerticalScroll(id="rows", can_focus=False):
                yield Static(id="table", markup=False)
            yield Static(Content(self._hint).stylize("$muted"), classes="dialog-hint")

    def on_mount(self) -> None:
        """Be ready for the filter."""
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
        """Move through the rows."""
        self.query_one("#rows", VerticalScroll).scroll_relative(y=lines, animate=False)

    def _show(self) -> None:
        typed = self.query_one(Input).value
        width = max(20, self.query_one("#table").size.width)
        lines: list[Content] = []
        for section in self._sections:
            rows = [row for row in section.rows if row.fits(typed)]
            if rows:
                lines += [Content("")] if lines else []
                lines.append(Content(section.heading).stylize("bold $secondary"))
                wide = width >= NARROW and any(row.word for row in section.rows)
                words = SLASH_WIDTH if wide else 0
                lines += [line for row in rows for line in _lines(row, width, words)]
        if not lines:
            lines = [Content("Nothing here has that.").stylize("$muted")]
        self.query_one("#table", Static).update(Content("\n").join(lines))


def _lines(row: Row, width: int, words: int) -> list[Content]:
    """A row in columns, of which the second has so many cells; its text goes on below itself."""
    indent = KEY_WIDTH + words
    text = row.text if words else f"{row.text}  {row.word}".rstrip()
    parts = textwrap.wrap(text, max(10, width - indent)) or [""]
    first = Content.assemble(
        (row.key.ljust(KEY_WIDTH), "$primary"),
        (row.word.ljust(words) if words else "", "$muted"),
        parts[0],
    )
    return [first, *(Content(" " * indent + part) for part in parts[1:])]
