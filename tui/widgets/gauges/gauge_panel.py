"""`GaugePanel`: memory, cache, speed, routes and models beside the chat."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content

from ...gauges.gauge_state import GaugeState, ModelRow, RouteRow
from ...text import number_format
from .glyph_text import StyledText, columns, signs
from .lines_widget import LinesWidget
from .memory_bar import MemoryBar
from .page_legend import PageLegend, page_title
from .page_map import PageMap
from .speed_chart import SpeedChart

PANEL_WIDTH = 36
PULL_BAR = 8


class PageTitle(LinesWidget):
    """The line over a map."""

    def __init__(self) -> None:
        super().__init__()
        self._state: GaugeState | None = None
        self._room = 1

    def show(self, state: GaugeState, room: int) -> None:
        """Tell the pages' size; `room` is how many cells the map has."""
        self._state, self._room = state, room
        self.changed()

    def draw(self, width: int) -> list[Content]:
        """One line."""
        return [page_title(self._state.pages if self._state else None, self._room, width)]


class ContextFacts(LinesWidget):
    """The context there really is, where that is less than the model could have."""

    def __init__(self) -> None:
        super().__init__()
        self._state: GaugeState | None = None

    def show(self, state: GaugeState) -> None:
        """Tell the context of the chat's model."""
        self._state = state
        self.changed()

    def draw(self, width: int) -> list[Content]:
        """One line, or none."""
        loaded = self._state.loaded if self._state is not None else None
        if self._state is None or loaded is None or not loaded.context:
            return []
        text = f"context {number_format.tokens(loaded.context)}"
        promised = self._state.promised_context()
        if promised:
            text += f" of {number_format.tokens(promised)}"
        if loaded.layers_on_gpu and loaded.layers_on_gpu < loaded.layers:
            text += f" · {loaded.layers_on_gpu}/{loaded.layers} layers on GPU"
        return [signs([(text, "$muted")]).truncate(width, ellipsis=True)]


class RouteLines(LinesWidget):
    """Where the last answers came from."""

    def __init__(self) -> None:
        super().__init__()
        self._routes: tuple[RouteRow, ...] = ()
        self._cloud = 0

    def show(self, routes: tuple[RouteRow, ...], cloud: int) -> None:
        """Tell the routes, and how many messages were sent to a cloud."""
        self._routes, self._cloud = routes, cloud
        self.changed()

    def draw(self, width: int) -> list[Content]:
        """A title, a line a message, and the sum."""
        title = columns(signs([("ROUTE", "bold")]), signs([("this chat", "$muted")]), width)
        rows = [
            signs(
                [
                    (f"{route.time} ", "$muted"),
                    (
                        "⌂ local" if route.place == "local" else f"☁ {route.place}",
                        "$success" if route.place == "local" else "$warning",
                    ),
                    (f"  {route.reason}" if route.reason else "", "$muted"),
                ]
            ).truncate(width, ellipsis=True)
            for route in self._routes
        ]
        sent: StyledText = (
            f"sent to cloud: {self._cloud}",
            "$warning" if self._cloud else "$muted",
        )
        return [title, *rows, signs([sent])]


class ModelLines(LinesWidget):
    """The models that are warm, on their way, or on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[ModelRow, ...] = ()

    def show(self, rows: tuple[ModelRow, ...]) -> None:
        """Tell these models."""
        self._rows = rows
        self.changed()

    def draw(self, width: int) -> list[Content]:
        """A title and a line a model."""
        if not self._rows:
            return []
        legend = signs([("● warm  ○ disk  ↓ pull", "$muted")])
        title = columns(signs([("MODELS", "bold")]), legend, width)
        return [title, *(self._row(row, width) for row in self._rows)]

    @staticmethod
    def _row(row: ModelRow, width: int) -> Content:
        style = {"●": "$success", "↓": "$primary", "◐": "$warning"}.get(row.mark, "$muted")
        words: list[StyledText] = [(row.words, "$muted")]
        if row.fraction is not None:
            full, empty = number_format.bar(row.fraction, PULL_BAR)
            words = [(full, "$primary"), (empty, "$edge"), (f" {row.words}", "$muted")]
        return columns(signs([(row.mark, style), " ", row.name]), signs(words), width)


class GaugePanel(VerticalScroll, can_focus=False):
    """36 cells at the right; `show` brings every part up to date.

    `visibility_changed` is called when it comes into sight or goes.
    """

    DEFAULT_CSS = """
    GaugePanel {
        width: 36;
        height: 100%;
        padding: 0 0 0 1;
        border-left: solid $edge;
        scrollbar-size-vertical: 0;
        & > LinesWidget, & > PageMap { margin: 0 1 0 0; }
        & > ContextFacts, & > PageLegend, & > SpeedChart, & > RouteLines { margin: 0 1 1 0; }
        & > PageMap:hover { background: $panel; }
    }
    """

    def __init__(self, visibility_changed: Callable[[], None]) -> None:
        super().__init__()
        self._visibility_changed = visibility_changed

    def on_show(self) -> None:
        """There is room again, or somebody asked for it."""
        self._visibility_changed()

    def on_hide(self) -> None:
        """Nobody sees it any more."""
        self._visibility_changed()

    def compose(self) -> ComposeResult:
        yield MemoryBar()
        yield ContextFacts()
        yield PageTitle()
        yield PageMap(rows=6)
        yield PageLegend()
        yield SpeedChart()
        yield RouteLines()
        yield ModelLines()

    def show(self, state: GaugeState, now: float) -> None:
        """Draw what changed; `now` is of the clock the state was fed with."""
        self.query_one(MemoryBar).show(state.memory())
        self.query_one(ContextFacts).show(state)
        pages = self.query_one(PageMap)
        pages.show(state.pages, state.label, state.flashing, state.title_of)
        self.query_one(PageTitle).show(state, pages.room)
        self.query_one(PageLegend).show(state.pages, state.label, state.evicted)
        self.query_one(SpeedChart).show(state.speed(now), state.last)
        self.query_one(RouteLines).show(state.routes, state.cloud)
        self.query_one(ModelLines).show(state.model_rows())

    def on_page_map_pointed(self, event: PageMap.Pointed) -> None:
        """Explain the cell under the pointer beside it."""
        event.stop()
        self.query_one(PageMap).tooltip = Content(event.text) if event.text else None
