"""`CompactChoice`: what to do with a prompt that no longer fits into the context."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...compaction.compaction_planner import CHOICES, Choice, full_sentence

LEGEND = "enter chooses  ·  esc gives the prompt back"


class CompactChoice(ModalScreen[Choice | None]):
    """Ends with a choice, or None where the prompt is not to be sent; counts are tokens."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Close", show=False)]

    def __init__(self, used: int, prompt: int, context: int) -> None:
        super().__init__()
        self._sentence = full_sentence(used, prompt, context)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            title = Content("The context is full").stylize("bold $primary")
            yield Static(title, classes="dialog-title")
            yield Static(self._sentence, markup=False)
            yield OptionList(
                *(
                    Option(Content.assemble(f"{title:<20}", (what, "$muted")))
                    for _, title, what in CHOICES
                ),
                markup=False,
            )
            yield Static(Content(LEGEND).stylize("$muted"), classes="dialog-hint")

    def on_mount(self) -> None:
        """Begin at the first."""
        options = self.query_one(OptionList)
        options.highlighted = 0
        options.focus()

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """End with the choice on the line."""
        self.dismiss(CHOICES[event.option_index][0])

    def action_cancel(self) -> None:
        """End without sending."""
        self.dismiss(None)
