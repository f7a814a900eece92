"""`LineInputScreen`: one line to be typed: a title, a folder, a passphrase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

LEGEND = "enter keeps it  ·  esc leaves it as it was"


class LineInputScreen(ModalScreen[str | None]):
    """Ends with what was typed, or None; with `secret` it is not shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Close", show=False, priority=True)
    ]

    def __init__(
        self,
        title: str,
        text: str = "",
        *,
        note: str = "",
        legend: str = LEGEND,
        secret: bool = False,
        suggestions: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._heading = title
        self._text = text
        self._note = note
        self._legend = legend
        self._secret = secret
        self._suggestions = suggestions

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._heading).stylize("bold $primary"), classes="dialog-title")
            if self._note:
                yield Static(Content(self._note), classes="dialog-title")
            suggester = SuggestFromList(self._suggestions, case_sensitive=False)
            yield Input(
                self._text,
                password=self._secret,
                suggester=suggester if self._suggestions else None,
                compact=True,
            )
            yield Static(Content(self._legend).stylize("$muted"), classes="dialog-hint")

    def on_mount(self) -> None:
        """Begin at the end of the line."""
        line = self.query_one(Input)
        line.cursor_blink = False
        line.focus()

    @on(Input.Submitted)
    def keep(self, event: Input.Submitted) -> None:
        """End with what is written."""
        self.dismiss(event.value if self._secret else event.value.strip())

    def action_cancel(self) -> None:
        """End without a change."""
        self.dismiss(None)
