"""`HelpScreen`: keys and commands."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ..commands import COMMANDS

TYPING = (
    ("enter", "Send; while an answer runs, queue the prompt"),
    ("ctrl+j", "Break the line; shift+enter does too where it can"),
    ("up", "In an empty line: the last prompt again"),
    ("end", "At the end of the line: follow the answer again"),
    ("ctrl+p", "Every command, by name"),
)


class HelpScreen(ModalScreen[None]):
    """A table over the chat, closed by escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,enter", "dismiss", "Close", show=False)
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog"):
            yield Static(self._table(), markup=False)

    def _table(self) -> Content:
        rows = [self._row(key, text, "") for key, text in TYPING]
        for command in COMMANDS:
            argument = f" {command.argument}" if command.argument else ""
            slash = f"/{command.slash}{argument}" if command.slash else ""
            rows.append(self._row(command.key or "", command.help, slash))
        title = Content("Keys and commands").stylize("bold $primary")
        return Content("\n").join([title, Content(""), *rows])

    @staticmethod
    def _row(key: str, text: str, slash: str) -> Content:
        return Content.assemble((f"{key:<10} ", "$secondary"), (f"{slash:<13}", "$muted"), text)
