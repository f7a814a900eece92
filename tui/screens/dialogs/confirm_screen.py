"""`ConfirmScreen`: one question before something that costs or cannot be taken back."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static


class ConfirmScreen(ModalScreen[bool | None]):
    """Ends with True for enter, False or None for escape; `yes` and `no` say what they do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "answer(True)", "Yes", show=False),
        Binding("escape,n,q", "answer(False)", "No", show=False),
    ]

    def __init__(self, question: str, details: str, *, yes: str, no: str = "keeps all as it is"):
        super().__init__()
        self._question = question
        self._details = details
        self._yes = yes
        self._no = no

    def compose(self) -> ComposeResult:
        keys = Content.assemble(
            ("enter", "bold $primary"), f" {self._yes}   ", ("esc", "bold $primary"), f" {self._no}"
        )
        with Vertical(classes="dialog"):
            yield Static(Content(self._question).stylize("bold"), classes="dialog-title")
            yield Static(Content(self._details))
            yield Static(keys, classes="dialog-hint")

    def action_answer(self, answer: bool) -> None:
        """End with the answer."""
        self.dismiss(answer)
