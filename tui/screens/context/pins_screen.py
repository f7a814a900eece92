"""`PinsScreen`: the messages that are kept word for word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from ...chats.message import Message
from ...text.terminal_safe_text import clean
from ...transcript.markdown.markdown_preview import preview
from ..dialog import ChoiceDialog

LEGEND = "enter goes there  ·  delete unpins  ·  esc closes"
NONE = "Nothing is pinned. /pin keeps the last message word for word, p the block you are on."
NONE_LEGEND = "esc closes"
SHOWN = 200
"""Characters of a message that its line shows."""


class PinsScreen(ChoiceDialog[tuple[str, str] | None]):
    """Ends with what to do, `go` or `unpin`, and a message's id; or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("delete,backspace", "unpin", "Unpin", show=False)
    ]

    def __init__(self, pinned: Sequence[Message]) -> None:
        self._ids = [message.id for message in pinned]
        super().__init__(
            "Kept word for word",
            [(("go", message.id), _row(message)) for message in pinned],
            LEGEND if pinned else NONE_LEGEND,
            note="" if pinned else NONE,
            at=len(pinned) - 1,
        )

    def action_unpin(self) -> None:
        """Unpin the message on the line."""
        index = self.query_one(OptionList).highlighted
        if index is not None:
            self.dismiss(("unpin", self._ids[index]))


def _row(message: Message) -> Content:
    if message.role == "user":
        who, words = "you", " ".join(clean(message.content[:SHOWN]).split())
    else:
        who, words = message.model or "model", preview(message.content, SHOWN)
    return Content.assemble(("◆ ", "$secondary"), (f"{clean(who)}  ", "$muted"), words)
