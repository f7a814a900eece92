"""`CompletionPopup`: the list of completions above the composer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from ...text.terminal_safe_text import clean
from .completer import CompletionItem

ROWS = 8
LABEL_WIDTH = 28


class CompletionPopup(Widget):
    """Drawn over the widgets above; the composer handles the keys."""

    DEFAULT_CSS = """
    CompletionPopup {
        overlay: screen;
        width: 100%;
        max-width: 104;
        height: auto;
        padding: 0 2;
        background: $panel;
        color: $foreground;
        display: none;
    }
    """

    def __init__(self, take: Callable[[CompletionItem], object]) -> None:
        """`take` is called with a completion that is clicked."""
        super().__init__()
        self._take = take
        self.can_focus = False
        self._items: Sequence[CompletionItem] = ()
        self._index: int | None = None
        self._rows = ROWS

    @property
    def chosen(self) -> CompletionItem | None:
        """The marked completion, None if none is."""
        return None if self._index is None else self._items[self._index]

    @property
    def only_exact(self) -> bool:
        """Whether the best completion equals the typed text."""
        return bool(self._items) and self._items[0].exact

    def show(self, items: Sequence[CompletionItem], *, rows: int, marked: bool) -> None:
        """List these, in at most so many rows; `marked` marks the first."""
        self._items = items
        self._index = 0 if marked and items else None
        self._rows = max(1, min(ROWS, rows))
        self.display = bool(items)
        self.styles.offset = (0, -min(len(items), self._rows))
        self.refresh(layout=True)

    def move(self, step: int) -> None:
        """Mark the next (1) or the previous (-1) one, wrapping around."""
        if self._index is None:
            self._index = 0 if step > 0 else len(self._items) - 1
        else:
            self._index = (self._index + step) % len(self._items)
        self.refresh()

    @property
    def _first(self) -> int:
        """The first item that is shown."""
        at = self._index or 0
        return max(0, min(at - self._rows // 2, len(self._items) - self._rows))

    def render(self) -> RenderResult:
        shown = self._items[self._first : self._first + self._rows]
        width = self.content_size.width
        room = min(LABEL_WIDTH if width >= 60 else 18, width)
        lines = [self._line(item, room, width) for item in shown]
        return Content("\n").join(lines)

    def _line(self, item: CompletionItem, room: int, width: int) -> Content:
        marked = item is self.chosen
        label = clean(item.label)
        if item.detail:
            label = Content(label).truncate(room, ellipsis=True).plain.ljust(room) + " "
        style = "bold $primary" if marked else "$foreground"
        line = Content.assemble(
            ("▌ " if marked else "  ", "$primary"), (label, style), (clean(item.detail), "$muted")
        )
        return line.truncate(width, ellipsis=True)

    def on_click(self, event: events.Click) -> None:
        """Take the line that was clicked."""
        index = self._first + event.y
        if 0 <= index < len(self._items):
            self._take(self._items[index])
