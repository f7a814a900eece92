"""`Dialog`: a titled box over the chat, and `ChoiceDialog`: one with lines to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import OptionList, Static


class Dialog(ModalScreen[ScreenResultType]):
    """A heading, the `body` of the subclass, and a legend of keys; escape closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close", show=False, priority=True)
    ]

    def __init__(
        self, heading: str | Content, legend: str | Content, style: str = "bold $primary"
    ) -> None:
        super().__init__()
        self._heading = Content(heading).stylize(style) if isinstance(heading, str) else heading
        self._legend = Content(legend).stylize("$muted") if isinstance(legend, str) else legend

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._heading, classes="dialog-title")
            yield from self.body()
            yield Static(self._legend, classes="dialog-hint")

    def body(self) -> ComposeResult:
        """The widgets between heading and legend."""
        raise NotImplementedError


class ChoiceDialog(Dialog[ScreenResultType]):
    """Ends with the value of the chosen line, or None; begins at the line `at`."""

    def __init__(
        self,
        heading: str,
        choices: Sequence[tuple[ScreenResultType, Content]],
        legend: str,
        *,
        note: str = "",
        at: int = 0,
    ) -> None:
        super().__init__(heading, legend)
        self._choices = choices
        self._note = note
        self._at = at

    def body(self) -> ComposeResult:
        """The note, and a line for each choice."""
        if self._note:
            yield Static(self._note, markup=False)
        yield OptionList(*(line for _, line in self._choices), markup=False)

    def on_mount(self) -> None:
        """Highlight the first choice."""
        options = self.query_one(OptionList)
        options.display = bool(self._choices)
        options.highlighted = self._at if self._choices else None
        options.focus()

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """End with the value of the line."""
        self.dismiss(self._choices[event.option_index][0])
