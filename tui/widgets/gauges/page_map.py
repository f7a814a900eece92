"""`PageMapView`: the owners of the pages of the KV cache, as a map with a cursor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from ingle.daemon.client.daemon_types import PagesEvent

from ...gauges.gauge_state import GaugeState
from ...gauges.page_map_cells import (
    PageMapCell,
    PageState,
    explain,
    owners_text,
    page_cells,
    pages_per_cell,
)
from ...text import number_format
from .glyph_text import StyledText, signs

STYLES = {
    PageState.FREE: "$edge",
    PageState.REUSABLE: "$success",
    PageState.UNDO: "$warning",
    PageState.MINE: "$primary",
    PageState.SHARED: "$accent",
}
EVICTED = ("×", "bold $error")
BELOW = 8
"""Lines that title, legend and explanation of a map take."""


class PageMapView(Widget, can_focus=False):
    """The map alone; `PageLegend` explains its signs.

    `rows` is its maximum height, None for the container's height less `BELOW` lines; fewer pages
    take fewer rows.
    """

    DEFAULT_CSS = "PageMapView { height: auto; width: 100%; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Left", show=False),
        Binding("right,l", "move(1)", "Right", show=False),
        Binding("up,k", "row(-1)", "Up", show=False),
        Binding("down,j", "row(1)", "Down", show=False),
        Binding("home", "jump(0)", "First", show=False),
        Binding("end", "jump(-1)", "Last", show=False),
        Binding("enter", "owner", "Owner", show=False),
    ]

    @dataclass
    class Pointed(Message):
        """The cursor is on a cell; `text` explains it, "" where there is none."""

        text: str

    class Arranged(Message):
        """A cell may stand for another number of pages than before."""

    @dataclass
    class OwnerAsked(Message):
        """Enter was pressed on a cell; `text` names its owner."""

        text: str

    def __init__(self, rows: int | None = None) -> None:
        super().__init__()
        self._rows = rows
        self._event: PagesEvent | None = None
        self._label = ""
        self._title_of: Callable[[str], str | None] = lambda _: None
        self._flashing: frozenset[int] = frozenset()
        self._cells: list[PageMapCell] = []
        self._cursor: int | None = None

    def show(self, state: GaugeState) -> None:
        """Draw the pages as the open chat sees them; repaints only if they look different."""
        event = state.pages
        grown = (event.pages if event else 0) != (self._event.pages if self._event else 0)
        self._event, self._label, self._title_of = event, state.label, state.title_of
        flashes = state.flashing != self._flashing
        self._flashing = state.flashing
        if grown:
            self.refresh(layout=True)
        if self._arrange() or flashes:
            self.refresh()
        if self._cursor is not None:
            self._tell()
        elif self.has_focus:
            self.on_focus()

    @property
    def room(self) -> int:
        """The number of cells that fit."""
        return max(1, self.size.width * self.size.height)

    def _arrange(self) -> bool:
        """Update the cells; return whether they changed."""
        event = self._event
        cells = [] if event is None else page_cells(event, self._label, self.room)
        if cells == self._cells:
            return False
        self._cells = cells
        if self._cursor is not None:
            self._cursor = min(self._cursor, len(cells) - 1) if cells else None
        return True

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """The width of the container."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The rows that the pages need, at most `rows`."""
        if self._event is None or not width:
            return 1
        pages = self._event.pages
        most = max(2, container.height - BELOW) if self._rows is None else self._rows
        cells = -(-pages // pages_per_cell(pages, width * most))
        return max(1, -(-cells // width))

    def on_resize(self) -> None:
        """Arrange the cells for the new size, and correct what is said of them."""
        self._arrange()
        self.refresh()
        self.post_message(self.Arranged())
        if self._cursor is not None:
            self._tell()

    def render(self) -> RenderResult:
        width = self.size.width
        if not self._cells or not width:
            return signs([("shown once the model is loaded", "$muted")])
        rows = [self._cells[at : at + width] for at in range(0, len(self._cells), width)]
        lines = [signs(self._row(row, y * width)) for y, row in enumerate(rows)]
        return Content("\n").join(lines)

    def _row(self, cells: list[PageMapCell], first: int) -> list[StyledText]:
        """The cells of a row, with equal neighbours joined."""
        pieces: list[tuple[str, str]] = []
        for index, cell in enumerate(cells, first):
            glyph, style = cell.state.glyph, STYLES[cell.state]
            if self._flashing and not self._flashing.isdisjoint(range(cell.first, cell.last + 1)):
                glyph, style = EVICTED
            if index == self._cursor:
                style += " reverse"
            if pieces and pieces[-1][1] == style:
                pieces[-1] = (pieces[-1][0] + glyph, style)
            else:
                pieces.append((glyph, style))
        return list(pieces)

    # The cursor

    def point(self, index: int | None) -> None:
        """Put the cursor on a cell, or hide it."""
        if index is not None:
            index = max(0, min(index, len(self._cells) - 1)) if self._cells else None
        if index != self._cursor:
            self._cursor = index
            self.refresh()
        self._tell()

    def _tell(self) -> None:
        event = self._event
        if event is None or self._cursor is None or not self._cells:
            self.post_message(self.Pointed(""))
            return
        cell = self._cells[self._cursor]
        self.post_message(self.Pointed(explain(cell, event, self._label, self._title_of)))

    def on_focus(self) -> None:
        """Put the cursor on the first page of this chat."""
        if self._cursor is None and self._cells:
            mine = (i for i, cell in enumerate(self._cells) if cell.state is PageState.MINE)
            self.point(next(mine, 0))

    def action_move(self, step: int) -> None:
        """Go to the cell beside."""
        self.point((self._cursor or 0) + step)

    def action_row(self, step: int) -> None:
        """Go to the cell above or below."""
        there = (self._cursor or 0) + step * self.size.width
        if 0 <= there < len(self._cells):
            self.point(there)

    def action_jump(self, index: int) -> None:
        """Go to the first cell, or with -1 to the last."""
        self.point(index if index >= 0 else len(self._cells) - 1)

    def action_owner(self) -> None:
        """Show the owner of the cell."""
        event = self._event
        if event is None or self._cursor is None or not self._cells:
            return
        cell = self._cells[self._cursor]
        if cell.group < 0:
            self.post_message(self.OwnerAsked("free: no chat owns it"))
            return
        group = event.groups[cell.group]
        words = owners_text(group, cell.state, self._label, self._title_of)
        tokens = number_format.counted(group.tokens, "token")
        self.post_message(self.OwnerAsked(f"{words}: {tokens} in all"))

    def on_mouse_move(self, move: events.MouseMove) -> None:
        """Explain the cell under the pointer."""
        self._point_at(move.x, move.y)

    def on_click(self, click: events.Click) -> None:
        """Explain the cell in terminals that report no mouse movement."""
        self._point_at(click.x, click.y)

    def on_leave(self) -> None:
        """Hide the cursor, unless the keyboard controls it."""
        if not self.has_focus:
            self.point(None)

    def _point_at(self, x: int, y: int) -> None:
        index = y * self.size.width + x
        self.point(index if index < len(self._cells) else None)
