"""`TitleBar`: the chat's title and branch, and whether the chat is saved."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ..chats.chat import Chat
from ..session.chat_entries import branch_of
from ..session.chat_state import ChatState, ChatView
from ..text import number_format
from ..text.terminal_safe_text import clean

WIDE = 110
LEAST_TITLE = 12


class TitleBar(Widget):
    """One line at the top; the least important parts are left out first.

    `pulls` is the number of downloads that run.
    """

    view: reactive[ChatView] = reactive(lambda: ChatView(ChatState(), Chat()), always_update=True)
    pulls: reactive[int] = reactive(0)

    async def on_click(self) -> None:
        """A click shows the chats."""
        await self.run_action("screen.command('open')")

    def render(self) -> RenderResult:
        width = self.size.width
        head = Content.assemble((" ingle", "bold $primary"))
        chat = self.view.chat
        chat_title, branch = clean(chat.title), branch_of(chat)
        place = f" ⎇ {branch}" if branch else ""
        right, room = Content(""), width
        for parts in self._choices(width):
            right = _joined(parts)
            room = width - head.cell_length - right.cell_length - 4
            least = min(LEAST_TITLE, len(chat_title)) + len(place)
            if room >= least:
                break
        title = Content(chat_title).truncate(max(0, room - len(place)), ellipsis=True)
        left = Content.assemble(head, "  ", title, (place, "$secondary"))
        gap = " " * max(1, width - left.cell_length - right.cell_length - 1)
        return Content.assemble(left, gap, right).truncate(width)

    def _choices(self, width: int) -> Sequence[list[Content]]:
        """The alternatives for the right side, the longest first."""
        pulls = [Content.assemble((self._pulls(width >= WIDE), "$primary"))] if self.pulls else []
        kept = self._kept()
        return [kept + pulls, kept, []]

    def _kept(self) -> list[Content]:
        """Whether the chat is saved, in a word; nothing for a chat without messages."""
        (state, chat, store), style = self.view, "$muted"
        if chat.temporary:
            word = "temporary, not saved"
        elif state.not_kept:
            word, style = "NOT SAVED", "bold $error"
        elif store is None or not chat.messages:
            return []
        elif store.database.is_locked:
            word = "locked, not saved yet"
        else:
            word = "saved, encrypted" if store.database.is_encrypted else "saved"
        return [Content(word).stylize(style)]

    def _pulls(self, long: bool) -> str:
        if not long:
            return f"↓ {self.pulls}"
        return f"↓ {number_format.counted(self.pulls, 'download')} running"


_EDGE = Content(" │ ").stylize("$edge")


def _joined(parts: Sequence[Content]) -> Content:
    return _EDGE.join(parts) if parts else Content("")
