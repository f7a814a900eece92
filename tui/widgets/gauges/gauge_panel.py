"""`GaugePanel`: memory, cache, speed, routes and models beside the chat."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content

from ...chats.message import Message
from ...gauges.gauge_state import GaugeState, ModelStateRow
from ...text import number_format
from ...text.terminal_safe_text import clean
from .glyph_text import StyledText, columns, signs
from .lines_widget import LinesWidget
from .memory_bar import MemoryBar
from .page_legend import PageLegend, PageTitle
from .page_map import PageMapView
from .speed_chart import SpeedChart

PULL_BAR = 8


class ContextFacts(LinesWidget):
    """The context of the model, and its trained context if that is more."""

    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """One line, or none."""
        loaded = state.loaded
        if loaded is None or not loaded.context:
            return []
        text = f"context {number_format.tokens(loaded.context)}"
        promised = state.promised_context()
        if promised:
            text += f" of {number_format.tokens(promised)}"
        if loaded.layers_on_gpu and loaded.layers_on_gpu < loaded.layers:
            text += f" · {loaded.layers_on_gpu}/{loaded.layers} layers on GPU"
        return [signs([(text, "$muted")]).truncate(width, ellipsis=True)]


class RouteLines(LinesWidget):
    """The routes of the last answers."""

    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """A title, a line a message, and the sum."""
        title = columns(signs([("ROUTE", "bold")]), signs([("this chat", "$muted")]), width)
        style = "$warning" if state.cloud else "$muted"
        sent = signs([(f"sent to cloud: {state.cloud}", style)])
        return [title, *(self._row(answer, width) for answer in state.answers), sent]

    @staticmethod
    def _row(answer: Message, width: int) -> Content:
        place = answer.facts.route
        at = time.strftime("%H:%M", time.localtime(answer.created))
        pieces: list[StyledText] = [
            (f"{at} ", "$muted"),
            ("⌂ local", "$success") if place == "local" else (f"☁ {place}", "$warning"),
            (f"  {clean(answer.facts.route_reason) or 'no provider set up'}", "$muted"),
        ]
        return signs(pieces).truncate(width, ellipsis=True)


class ModelLines(LinesWidget):
    """The models that are loaded, downloading, or on the disk."""

    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """A title and a line a model."""
        rows = state.model_rows()
        if not rows:
            return []
        legend = signs([("● warm  ○ disk  ↓ pull", "$muted")])
        title = columns(signs([("MODELS", "bold")]), legend, width)
        return [title, *(self._row(row, width) for row in rows)]

    @staticmethod
    def _row(row: ModelStateRow, width: int) -> Content:
        style = {"●": "$success", "↓": "$primary", "◐": "$warning"}.get(row.mark, "$muted")
        words: list[StyledText] = [(row.words, "$muted")]
        if row.fraction is not None:
            full, empty = number_format.bar(row.fraction, PULL_BAR)
            words = [(full, "$primary"), (empty, "$edge"), (f" {row.words}", "$muted")]
        return columns(signs([(row.mark, style), " ", row.name]), signs(words), width)


class GaugePanel(VerticalScroll, can_focus=False):
    """36 cells at the right; `show` updates every part.

    `visibility_changed` is called when it comes into sight or goes.
    """

    DEFAULT_CSS = """
    GaugePanel {
        width: 36;
        height: 100%;
        padding: 0 0 0 1;
        border-left: solid $edge;
        scrollbar-size-vertical: 0;
        & > LinesWidget, & > PageMapView { margin: 0 1 0 0; }
        & > ContextFacts, & > PageLegend, & > SpeedChart, & > RouteLines { margin: 0 1 1 0; }
        & > PageMapView:hover { background: $panel; }
    }
    """

    def __init__(self, visibility_changed: Callable[[], None]) -> None:
        super().__init__()
        self._visibility_changed = visibility_changed

    def on_show(self) -> None:
        """Called when it is shown again."""
        self._visibility_changed()

    def on_hide(self) -> None:
        """Called when it is hidden."""
        self._visibility_changed()

    def compose(self) -> ComposeResult:
        yield MemoryBar()
        yield ContextFacts()
        yield PageTitle()
        yield PageMapView(rows=6)
        yield PageLegend()
        yield SpeedChart()
        yield RouteLines()
        yield ModelLines()

    def show(self, state: GaugeState) -> None:
        """Draw what changed."""
        self.query_one(PageMapView).show(state)
        for lines in self.query(LinesWidget):
            lines.show(state)

    def on_page_map_view_arranged(self) -> None:
        """Say how many pages a cell stands for now."""
        self.query_one(PageTitle).redraw()

    def on_page_map_view_pointed(self, event: PageMapView.Pointed) -> None:
        """Explain the cell under the pointer beside it."""
        event.stop()
        self.query_one(PageMapView).tooltip = Content(event.text) if event.text else None
