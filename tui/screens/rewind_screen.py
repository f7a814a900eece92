"""`RewindScreen`: choose a prompt to go back to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ..chats.message import Message
from ..text.terminal_safe_text import clean

LEGEND = "enter edits it, as a branch; what came later stays  ·  esc closes"
SHOWN = 200


class RewindScreen(ModalScreen[Message | None]):
    """Ends with the chosen prompt, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Close", show=False)]

    def __init__(self, prompts: Sequence[Message]) -> None:
        super().__init__()
        self._prompts = list(prompts)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(
                Content("Back to a prompt").stylize("bold $primary"), classes="dialog-title"
            )
            yield OptionList(*(Option(self._row(prompt)) for prompt in self._prompts), markup=False)
            yield Static(Content(LEGEND).stylize("$muted"), classes="dialog-hint")

    def on_mount(self) -> None:
        """Begin at the last one."""
        options = self.query_one(OptionList)
        options.highlighted = len(self._prompts) - 1
        options.focus()

    @staticmethod
    def _row(prompt: Message) -> Content:
        words = " ".join(clean(prompt.content[:SHOWN]).split())
        when = time.strftime("%H:%M", time.localtime(prompt.created))
        return Content.assemble((f"{when}  ", "$muted"), words)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """End with the prompt on the chosen line."""
        self.dismiss(self._prompts[event.option_index])

    def action_cancel(self) -> None:
        """End without a choice."""
        self.dismiss(None)
