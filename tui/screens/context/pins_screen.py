"""`PinsScreen`: the messages that are kept word for word."""

from __future__ import annotations

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

from ...chats.message import Message
from ...text.terminal_safe_text import clean
from ...transcript.markdown.markdown_preview import preview

LEGEND = "enter goes there  ·  delete unpins  ·  esc closes"
NONE = "Nothing is pinned. /pin keeps the last message word for word, p the block you are on."
NONE_LEGEND = "esc closes"
SHOWN = 200


class PinsScreen(ModalScreen[tuple[str, str] | None]):
    """Ends with what to do, `go` or `unpin`, and a message's id; or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Close", show=False),
        Binding("delete,backspace", "unpin", "Unpin", show=False),
    ]

    def __init__(self, pinned: Sequence[Message]) -> None:
        super().__init__()
        self._pinned = list(pinned)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            title = Content("Kept word for word").stylize("bold $primary")
            yield Static(title, classes="dialog-title")
            if not self._pinned:
                yield Static(NONE, markup=False)
            yield OptionList(*(Option(self._row(m)) for m in self._pinned), markup=False)
            legend = LEGEND if self._pinned else NONE_LEGEND
            yield Static(Content(legend).stylize("$muted"), classes="dialog-hint")

    def on_mount(self) -> None:
        """Begin at the last one."""
        options = self.query_one(OptionList)
        options.display = bool(self._pinned)
        options.highlighted = len(self._pinned) - 1 if self._pinned else None
        options.focus()

    @staticmethod
    def _row(message: Message) -> Content:
        if message.role == "user":
            who, words = "you", " ".join(clean(message.content[:SHOWN]).split())
        else:
            who, words = message.model or "model", preview(message.content, SHOWN)
        return Content.assemble(("◆ ", "$secondary"), (f"{clean(who)}  ", "$muted"), words)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Go to the message on the chosen line."""
        self.dismiss(("go", self._pinned[event.option_index].id))

    def action_unpin(self) -> None:
        """Unpin the message on the line."""
        index = self.query_one(OptionList).highlighted
        if index is not None:
            self.dismiss(("unpin", self._pinned[index].id))

    def action_cancel(self) -> None:
        """End without a change."""
        self.dismiss(None)
