"""`GaugesScreen`: all gauges on the whole screen, and `PageMapScreen`: the KV cache alone."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from ...gauges.gauge_state import GaugeState
from ...widgets.gauges.context_ribbon import ContextRibbon
from ...widgets.gauges.gauge_panel import ContextFacts, ModelLines, RouteLines
from ...widgets.gauges.lines_widget import LinesWidget
from ...widgets.gauges.memory_bar import MemoryBar
from ...widgets.gauges.page_legend import PageLegend, PageTitle
from ...widgets.gauges.page_map import PageMapView
from ...widgets.gauges.speed_chart import SpeedChart

Closed = Literal["side", "off"]
"""The mode after the screen is closed: the panel beside the chat, or no gauges."""
TALL = 40
"""Screen height from which everything is drawn large."""
HINT = "esc: back to the chat · F4: gauges off · page up, page down: more"
SHORT_HINT = "esc: back · F4: gauges off · page up, page down: more"
MAP_HINT = "arrows or mouse: what is in a cell · enter: whose it is"
MAP_KEYS = "arrows: a cell · enter: whose it is · esc: back to the chat"


class _MapScreen(Screen[Closed]):
    """Base of both screens: a map with a cursor, and a line that explains its cell."""

    HORIZONTAL_BREAKPOINTS = [(0, "-thin"), (100, "-wide")]  # noqa: RUF012
    DEFAULT_CSS = """
    _MapScreen {
        & #head { height: 1; padding: 0 1; background: $panel; }
        & #foot { height: 1; padding: 0 1; color: $muted; }
        & #cell { height: 1; margin-top: 1; }
        & PageTitle { margin-bottom: 1; }
        & PageLegend { margin-top: 1; }
    }
    """

    def on_mount(self) -> None:
        """Focus the map."""
        pages = self.query_one(PageMapView)
        pages.can_focus = True
        pages.focus()

    def show(self, state: GaugeState) -> None:
        """Draw what changed, once it is mounted."""
        if not self.is_mounted:
            return
        self.query_one(PageMapView).show(state)
        for lines in self.query(LinesWidget):
            lines.show(state)

    def on_page_map_view_arranged(self) -> None:
        """Say how many pages a cell stands for now."""
        self.query_one(PageTitle).redraw()

    def on_page_map_view_pointed(self, event: PageMapView.Pointed) -> None:
        """Explain the cell under the cursor."""
        self._tell(event.text or MAP_HINT, "$foreground" if event.text else "$muted")

    def on_page_map_view_owner_asked(self, event: PageMapView.OwnerAsked) -> None:
        """Show the owner of the cell."""
        self._tell(event.text, "$primary")

    def _tell(self, text: str, style: str) -> None:
        self.query_one("#cell", Static).update(Content.styled(text, style))


class PageMapScreen(_MapScreen):
    """The KV cache, page by page, as large as the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f4", "dismiss('side')", "Close", show=False)
    ]
    DEFAULT_CSS = """
    PageMapScreen {
        & PageTitle { margin: 0; padding: 0 1; background: $panel; }
        & #body { height: 1fr; padding: 1 2 0 2; }
    }
    """

    def compose(self) -> ComposeResult:
        yield PageTitle("bold $primary")
        with Vertical(id="body"):
            yield PageMapView()
            yield PageLegend()
            yield Static(Content.styled(MAP_HINT, "$muted"), id="cell")
        yield Static(MAP_KEYS, id="foot", markup=False)


class GaugesScreen(_MapScreen):
    """Memory, context, speed, routes and models, and the page map, at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss('side')", "Close", show=False),
        Binding("f4", "dismiss('off')", "Off", show=False),
        Binding("pageup", "page(-1)", "Up", show=False),
        Binding("pagedown", "page(1)", "Down", show=False),
    ]
    DEFAULT_CSS = """
    GaugesScreen {
        & #body { height: 1fr; }
        & #facts { width: 46; padding: 1 2 0 2; scrollbar-size-vertical: 0; }
        & #cache { width: 1fr; padding: 1 1 0 2; }
        & #facts > LinesWidget { margin-bottom: 1; }
        & ContextRibbon { margin: 0 2; }
        &.-thin #body { layout: vertical; overflow-y: auto; scrollbar-size-vertical: 1; }
        &.-thin #facts { width: 100%; height: auto; padding: 1 1 0 1; }
        &.-thin #cache { width: 100%; height: 13; padding: 1 1 0 1; }
        &.-thin ContextRibbon { margin: 0 1; }
    }
    """

    def compose(self) -> ComposeResult:
        tall = self.size.height >= TALL
        yield Static(Content.styled("Gauges", "bold $primary"), id="head")
        with Horizontal(id="body"):
            with Vertical(id="cache"):
                yield PageTitle()
                yield PageMapView()
                yield PageLegend()
                yield Static(Content.styled(MAP_HINT, "$muted"), id="cell")
            with VerticalScroll(id="facts", can_focus=False):
                yield MemoryBar(full=tall)
                yield ContextFacts()
                yield SpeedChart(rows=4 if tall else 2)
                yield RouteLines()
                yield ModelLines()
        yield ContextRibbon()
        yield Static(id="foot", markup=False)

    def on_resize(self) -> None:
        """Show the keys, in short where there is little room."""
        hint = HINT if self.size.width >= len(HINT) + 2 else SHORT_HINT
        self.query_one("#foot", Static).update(hint)

    def action_page(self, direction: int) -> None:
        """Scroll by a page."""
        for part in ("#body", "#facts"):
            box = self.query_one(part)
            box.scroll_relative(y=direction * max(1, box.size.height - 2), animate=False)

    def show(self, state: GaugeState) -> None:
        """Draw what changed, once it is mounted."""
        super().show(state)
        for ribbon in self.query(ContextRibbon):
            ribbon.use = state.use
