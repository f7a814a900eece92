"""Questions over the chat: yes or no, one line, a longer text; and the progress of a task."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static, TextArea

from ..commands.chat_session import KEEPS, LineQuestion
from .dialog import Dialog


class ConfirmScreen(Dialog[bool | None]):
    """Ends with True for enter, False for escape; `yes` and `no` say what they do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "dismiss(True)", "Yes", show=False),
        Binding("escape,n,q", "dismiss(False)", "No", show=False),
    ]

    def __init__(self, question: str, details: str, *, yes: str, no: str = KEEPS) -> None:
        keys = Content.assemble(
            ("enter", "bold $primary"), f" {yes}   ", ("esc", "bold $primary"), f" {no}"
        )
        super().__init__(question, keys, "bold")
        self._details = details

    def body(self) -> ComposeResult:
        """The details of the question."""
        yield Static(Content(self._details))


class LineInputScreen(Dialog[str | None]):
    """Ends with what was typed, or None."""

    def __init__(self, question: LineQuestion) -> None:
        legend = question.legend or "enter saves  ·  esc cancels"
        super().__init__(question.label, legend)
        self._question = question

    def body(self) -> ComposeResult:
        """The note, and the line."""
        question = self._question
        if question.note:
            yield Static(Content(question.note), classes="dialog-title")
        suggester = SuggestFromList(question.suggestions, case_sensitive=False)
        yield Input(
            question.text,
            password=question.is_secret,
            suggester=suggester if question.suggestions else None,
            compact=True,
        )

    def on_mount(self) -> None:
        """Focus the line, with the cursor at its end."""
        line = self.query_one(Input)
        line.cursor_blink = False
        line.focus()

    @on(Input.Submitted)
    def keep(self, event: Input.Submitted) -> None:
        """End with what is written."""
        self.dismiss(event.value if self._question.is_secret else event.value.strip())


class TextEditor(Dialog[str | None]):
    """Ends with the new text, or None if it stays as it was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "keep", "Keep", show=False, priority=True)
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__(title, "ctrl+s saves  ·  esc cancels")
        self._text = text

    def body(self) -> ComposeResult:
        """The editor."""
        yield TextArea(self._text, id="editor")

    def on_mount(self) -> None:
        """Focus the text, with the cursor at its end."""
        area = self.query_one(TextArea)
        area.cursor_blink = False
        area.move_cursor(area.document.end)
        area.focus()

    def action_keep(self) -> None:
        """End with what is written."""
        self.dismiss(self.query_one(TextArea).text.strip())


class ProgressScreen(Dialog[None]):
    """Shows the last reported line, a few times a second; any thread may report."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Stop", show=False, priority=True)
    ]

    def __init__(self, title: str, legend: str) -> None:
        super().__init__(title, legend)
        self._line = ""
        self._finished = False
        self.is_cancelled = False

    def body(self) -> ComposeResult:
        """The last reported line."""
        yield Static(id="line", markup=False)

    def on_mount(self) -> None:
        """Draw the reported line at intervals."""
        self._timer = self.set_interval(0.1, self._show)

    def report(self, text: str) -> None:
        """Set the line."""
        self._line = text

    def finish(self) -> None:
        """Close as soon as the screen is on top."""
        self._finished = True

    def action_cancel(self) -> None:
        """Stop the task at its next safe point."""
        self.is_cancelled = True
        self._line = "Stopping…"

    def _show(self) -> None:
        if self._finished and self.is_current:
            self._timer.stop()
            self.dismiss(None)
        else:
            self.query_one("#line", Static).update(Content(self._line))
