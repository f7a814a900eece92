"""`TitleBar`: the chat's title and branch, the model, and whether the chat is saved."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ..chats.chat import Chat
from ..privacy.chat_route import ChatRoute, route_to
from ..session.chat_entries import branch_of
from ..session.chat_state import ChatState, ChatView
from ..text.terminal_safe_text import clean

NARROW, WIDE = 70, 110
LEAST_TITLE = 12


class TitleBar(Widget):
    """One line at the top; the least important parts are left out first.

    `pulls` is the number of downloads that run.
    """

    view: reactive[ChatView] = reactive(lambda: ChatView(ChatState(), Chat()), always_update=True)
    pulls: reactive[int] = reactive(0)
    route: reactive[ChatRoute] = reactive(route_to("127.0.0.1:0"))

    async def on_click(self, event: events.Click) -> None:
        """A click on the title shows the chats, one on the right side the models."""
        name = "open" if event.x < self.size.width // 2 else "model"
        await self.run_action(f"screen.command('{name}')")

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
        route = [Content(f"{self.route.mark} {self.route.word.lower()}").stylize("$muted")]
        long_model, model = self._model(with_state=True), self._model(with_state=False)
        if width < NARROW:
            return [kept + pulls + route, kept + pulls, kept, []]
        return [
            long_model + route + kept + pulls,
            model + route + kept + pulls,
            route + kept + pulls,
            kept + pulls,
            [],
        ]

    def _model(self, *, with_state: bool) -> list[Content]:
        """The model's name with a mark if it is ready, and the state of its process."""
        known = self.view.state
        if not known.model_name:
            return []
        is_ready, words = False, ""
        if known.loaded is not None and known.loaded.state != "stopped":
            is_ready, words = known.loaded.state == "ready", known.loaded.state
        elif known.model is not None:
            is_ready = known.model.state == "ready"
            words = "" if known.model.installed else "not here yet"
        mark = ("●", "$success") if is_ready else ("○", "$muted")
        shown = f" {words}" if with_state and words else ""
        return [Content.assemble(mark, f" {clean(known.model_name)}", (shown, "$muted"))]

    def _kept(self) -> list[Content]:
        """Whether the chat is saved, in a word; nothing for a chat without messages."""
        (state, chat, store), style = self.view, "$muted"
        if chat.temporary:
            word = "temporary, not written"
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
        return f"↓ {self.pulls} download{'' if self.pulls == 1 else 's'} running"


_EDGE = Content(" │ ").stylize("$edge")


def _joined(parts: Sequence[Content]) -> Content:
    return _EDGE.join(parts) if parts else Content("")
