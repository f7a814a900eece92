"""`StatisticsScreen`: figures of the last answer and of the chat."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ...commands.answer_statistics import Rows
from ...text.terminal_safe_text import clean


class StatisticsScreen(ModalScreen[None]):
    """Tables over the chat, closed by escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Close", show=False)
    ]

    def __init__(self, tables: dict[str, Rows]) -> None:
        super().__init__()
        self._tables = tables

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog"):
            yield Static(self._content(), markup=False)

    def _content(self) -> Content:
        lines: list[Content] = []
        for title, rows in self._tables.items():
            if lines:
                lines.append(Content(""))
            lines.append(Content.styled(title, "bold $primary"))
            lines += [Content.assemble((f"{n:<16}", "$muted"), clean(v)) for n, v in rows]
        return Content("\n").join(lines)
