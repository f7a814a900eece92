"""`TitleBar`: which chat this is, its branch, the model, and whether it is kept."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ..privacy.chat_route import ChatRoute, route_to

NARROW, WIDE = 70, 110
LEAST_TITLE = 12


class TitleBar(Widget):
    """One line at the top; what matters least goes first where there is little room.

    `place` is the branch as in `2/3`, `kept` a word for where the chat is written, which stands out
    with `trouble`; `good` is whether the model is ready.
    """

    chat_title: reactive[str] = reactive("")
    place: reactive[str] = reactive("")
    model: reactive[str] = reactive("")
    model_state: reactive[str] = reactive("")
    good: reactive[bool] = reactive(False)
    kept: reactive[str] = reactive("")
    trouble: reactive[bool] = reactive(False)
    pulls: reactive[int] = reactive(0)
    route: reactive[ChatRoute] = reactive(route_to("127.0.0.1:0"))

    async def on_click(self, event: events.Click) -> None:
        """The title shows the chats there are, what is right of it the models."""
        name = "open" if event.x < self.size.width // 2 else "model"
        await self.run_action(f"screen.command('{name}')")

    def render(self) -> RenderResult:
        width = self.size.width
        head = Content.assemble((" ingle", "bold $primary"))
        for parts in self._choices(width):
            right = _joined(parts)
            room = width - head.cell_length - right.cell_length - 4
            least = min(LEAST_TITLE, len(self.chat_title)) + len(self._place())
            if room >= least or parts is _LAST:
                break
        else:  # pragma: no cover - the choices end with an empty one
            right, room = Content(""), width
        title = Content(self.chat_title).truncate(max(0, room - len(self._place())), ellipsis=True)
        left = Content.assemble(head, "  ", title, (self._place(), "$secondary"))
        gap = " " * max(1, width - left.cell_length - right.cell_length - 1)
        return Content.assemble(left, gap, right).truncate(width)

    def _place(self) -> str:
        return f" ⎇ {self.place}" if self.place else ""

    def _choices(self, width: int) -> Sequence[list[Content]]:
        """What may stand at the right, the longest first."""
        pulls = [Content.assemble((self._pulls(width >= WIDE), "$primary"))] if self.pulls else []
        kept = [self._kept()] if self.kept else []
        route = [Content(f"{self.route.mark} {self.route.word.lower()}").stylize("$muted")]
        long_model = [self._model(with_state=True)] if self.model else []
        model = [self._model(with_state=False)] if self.model else []
        if width < NARROW:
            return [kept + pulls + route, kept + pulls, kept, _LAST]
        return [
            long_model + route + kept + pulls,
            model + route + kept + pulls,
            route + kept + pulls,
            kept + pulls,
            _LAST,
        ]

    def _model(self, *, with_state: bool) -> Content:
        mark = ("●", "$success") if self.good else ("○", "$muted")
        state = f" {self.model_state}" if with_state and self.model_state else ""
        return Content.assemble(mark, f" {self.model}", (state, "$muted"))

    def _kept(self) -> Content:
        return Content(self.kept).stylize("bold $error" if self.trouble else "$muted")

    def _pulls(self, long: bool) -> str:
        if not long:
            return f"↓ {self.pulls}"
        return f"↓ {self.pulls} download{'' if self.pulls == 1 else 's'} running"


_LAST: list[Content] = []
_EDGE = Content(" │ ").stylize("$edge")


def _joined(parts: Sequence[Content]) -> Content:
    return _EDGE.join(parts) if parts else Content("")
