"""`BlockMenu`: a menu of the actions on a block of the transcript."""

from __future__ import annotations

from textual import events
from textual.content import Content

from ..transcript.view.block_navigation import BlockStop, actions
from ..transcript.view.transcript import KEYS, Action
from .dialog import ChoiceDialog

WORDS: dict[Action, str] = {
    "copy": "Copy",
    "edit": "Edit and send as a new branch",
    "again": "Answer again, beside this one",
    "branch": "Go on from here in a chat of its own",
    "pin": "Keep word for word when compacting, or not",
    "fold": "Fold or unfold",
    "undo": "Put the file back as it was",
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


class BlockMenu(ChoiceDialog[Action | None]):
    """Ends with the chosen action, or None; the keys of the block cursor work here, too."""

    def __init__(self, at: BlockStop) -> None:
        keys: dict[Action, str] = {action: key for key, action in KEYS.items()}
        self._actions: list[Action] = [action for action in actions(at) if action in WORDS]
        super().__init__(
            "Message" if at.block is None else NAMES[at.block.kind],
            [
                (action, Content.assemble((f"{keys[action]}  ", "$primary"), WORDS[action]))
                for action in self._actions
            ],
            "enter or its letter  ·  esc closes",
        )

    def on_key(self, event: events.Key) -> None:
        """End with the action of a key."""
        action = KEYS.get(event.key)
        if action in self._actions:
            event.stop()
            self.dismiss(action)
