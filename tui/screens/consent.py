"""`ConsentScreen`: asks before something that cannot be had back for nothing."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ..transcript.cleaning import clean


class ConsentScreen(ModalScreen[bool]):
    """A sentence that says the price; ends with True for enter, False for escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "answer(True)", "Yes", show=False),
        Binding("escape,n,q", "answer(False)", "No", show=False),
    ]
    DEFAULT_CSS = "ConsentScreen .dialog { width: 64; }"

    def __init__(self, title: str, sentence: str) -> None:
        super().__init__()
        self._title = title
        self._sentence = sentence

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            title = Content.styled(clean(self._title), "bold $primary")
            yield Static(title, classes="dialog-title", markup=False)
            yield Static(clean(self._sentence), markup=False)
            hint = Content.styled("enter: do it · esc: leave it", "$muted")
            yield Static(hint, classes="dialog-hint", markup=False)

    def action_answer(self, yes: bool) -> None:
        """End with the answer."""
        self.dismiss(yes)
