"""`ProgressScreen`: says how far something is, and lets it be stopped."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

LEGEND = "esc stops it; what is done stays"


class ProgressScreen(ModalScreen[None]):
    """Shows the last line it was told, a few times a second; any thread may tell."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Stop", show=False)]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._heading = title
        self._line = ""
        self._finished = False
        self.is_cancelled = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._heading).stylize("bold $primary"), classes="dialog-title")
            yield Static(id="line", markup=False)
            yield Static(Content(LEGEND).stylize("$muted"), classes="dialog-hint")

    def on_mount(self) -> None:
        """Look for news from time to time."""
        self._timer = self.set_interval(0.1, self._show)

    def report(self, text: str) -> None:
        """How far it is now."""
        self._line = text

    def finish(self) -> None:
        """It is over: close as soon as that can be."""
        self._finished = True

    def action_cancel(self) -> None:
        """Stop at the next good moment."""
        self.is_cancelled = True
        self._line = "Stopping…"

    def _show(self) -> None:
        if self._finished and self.is_current:
            self._timer.stop()
            self.dismiss(None)
        else:
            self.query_one("#line", Static).update(Content(self._line))
