"""`RouteLine`: the route of the draft, and private data found in it."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from ..privacy.chat_route import ChatRoute, route_to


class RouteLine(Widget):
    """In the upper border of the composer; findings are hints: their absence proves nothing.

    `found` is a list in words, None while nothing is typed.
    """

    DEFAULT_CSS = """
    RouteLine {
        layer: above; height: 1; width: auto; margin: 0 0 0 1; padding: 0 1;
        background: $background;
    }
    """

    route: reactive[ChatRoute] = reactive(route_to("127.0.0.1:0"), layout=True)
    found: reactive[str | None] = reactive[str | None](None, layout=True)
    more: reactive[str] = reactive("", layout=True)
    """An additional fact, left out first where there is no room."""

    async def on_click(self) -> None:
        """Explain the route."""
        await self.run_action("screen.command('why')")

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """The width of its words, as far as the border has room."""
        return self._line(container.width - 4).cell_length

    def render(self) -> RenderResult:
        return self._line(self.size.width)

    def _line(self, width: int) -> Content:
        """The words in at most `width` cells."""
        route = self.route
        style = "$success" if route.kind == "local" else "$warning"
        head = Content.assemble((f"{route.mark} {route.word}", f"bold {style}"))
        found = self._found()
        promise = Content(f" · {route.promise}").stylize("$muted")
        more = Content(f" · {self.more}").stylize("$muted") if self.more else Content("")
        for parts in ((promise, found, more), (promise, found), (found,)):
            line = Content.assemble(head, *parts)
            if line.cell_length <= width:
                return line
        return Content.assemble(head, found).truncate(width, ellipsis=True)

    def _found(self) -> Content:
        if not self.found:
            return Content("")
        words = Content(self.found).stylize("$warning")
        return Content.assemble((" · found: ", "$muted"), words)
