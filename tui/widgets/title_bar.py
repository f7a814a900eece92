"""`TitleBar`: the name of the chat, and where what is typed goes."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

PROMISE = "⌂ local"
LONG_PROMISE = "⌂ local · nothing leaves this machine"


class TitleBar(Widget):
    """One line at the top."""

    chat_title: reactive[str] = reactive("")

    def render(self) -> RenderResult:
        width = self.size.width
        promise = LONG_PROMISE if width >= 70 else PROMISE
        room = width - len(promise) - len("ingle") - 6
        title = Content(self.chat_title).truncate(max(0, room), ellipsis=True)
        left = Content.assemble((" ingle", "bold $primary"), "  ", title)
        gap = " " * max(1, width - left.cell_length - len(promise) - 1)
        return Content.assemble(left, gap, (promise, "$muted"))
