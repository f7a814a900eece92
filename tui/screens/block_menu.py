"""`BlockMenu`: what can be done with a block, to choose from."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ..transcript.view.block_navigation import KEYS, Action, BlockStop, actions

WORDS: dict[Action, str] = {
    "copy": "Copy",
    "edit": "Edit and send as a new branch",
    "again": "Answer again, beside this one",
    "branch": "Go on from here in a chat of its own",
    "pin": "Keep word for word when compacting, or not",
    "fold": "Fold or unfold",
}
NAMES = {
    "fence": "Code",
    "table": "Table",
    "thought": "Thoughts",
    "tool": "Tool call",
    "attachment": "Attachment",
    "seam": "Summary",
    "system": "System prompt",
}


class BlockMenu(ModalScreen[Action | None]):
    """Ends with what is to be done, or None; the keys of the block cursor work here, too."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Close", show=False)]

    def __init__(self, at: BlockStop) -> None:
        super().__init__()
        self._title = "Message" if at.block is None else NAMES[at.block.kind]
        self._actions: list[Action] = [action for action in actions(at) if action in WORDS]

    def compose(self) -> ComposeResult:
        keys: dict[Action, str] = {action: key for key, action in KEYS.items()}
        rows = (
            Content.assemble((f"{keys[action]}  ", "$primary"), WORDS[action])
            for action in self._actions
        )
        with Vertical(classes="dialog"):
            yield Static(Content(self._title).stylize("bold $primary"), classes="dialog-title")
            yield OptionList(*(Option(row) for row in rows), markup=False)
            yield Static(
                Content("enter or its letter  ·  esc closes").stylize("$muted"),
                classes="dialog-hint",
            )

    def on_mount(self) -> None:
        """Begin at the first."""
        options = self.query_one(OptionList)
        options.highlighted = 0
        options.focus()

    def on_key(self, event: events.Key) -> None:
        """Take a letter for its line."""
        action = KEYS.get(event.key)
        if action is not None and action in self._actions:
            event.stop()
            self.dismiss(action)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """End with the chosen line."""
        self.dismiss(self._actions[event.option_index])

    def action_cancel(self) -> None:
        """End without a choice."""
        self.dismiss(None)
