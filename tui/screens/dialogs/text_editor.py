"""`TextEditor`: a text of some lines, to be changed."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

LEGEND = "ctrl+s keeps it  ·  esc leaves it as it was"


class TextEditor(ModalScreen[str | None]):
    """Ends with the new text, or None where it stays as it was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "keep", "Keep", show=False, priority=True),
        Binding("escape", "cancel", "Close", show=False, priority=True),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._heading = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._heading).stylize("bold $primary"), classes="dialog-title")
            yield TextArea(self._text, id="editor")
            yield Static(Content(LEGEND).stylize("$muted"), classes="dialog-hint")

    def on_mount(self) -> None:
        """Begin at the end of the text."""
        area = self.query_one(TextArea)
        area.cursor_blink = False
        area.move_cursor(area.document.end)
        area.focus()

    def action_keep(self) -> None:
        """End with what is written."""
        self.dismiss(self.query_one(TextArea).text.strip())

    def action_cancel(self) -> None:
        """End without a change."""
        self.dismiss(None)
