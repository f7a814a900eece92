"""Title and legend of the page map."""

from __future__ import annotations

from textual.content import Content

from ingle.daemon.client.daemon_types import PagesEvent

from ...gauges.gauge_state import GaugeState
from ...gauges.page_map_cells import PageState, page_counts, pages_per_cell
from ...text import number_format
from .glyph_text import columns, in_columns, signs
from .lines_widget import LinesWidget
from .page_map import EVICTED, STYLES, PageMapView

LEGEND = (PageState.SHARED, PageState.MINE, PageState.UNDO, PageState.REUSABLE, PageState.FREE)


class PageTitle(LinesWidget):
    """The line over a map: `KV PAGES    32 tok each · cell = 6`."""

    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """One line."""
        title, event = signs([("KV PAGES", "bold")]), state.pages
        if event is None:
            return [title]
        assert self.parent is not None
        per_cell = pages_per_cell(event.pages, self.parent.query_one(PageMapView).room)
        cell = f" · cell = {per_cell}" if per_cell > 1 else ""
        facts = signs([(f"{event.page_tokens} tok each{cell}", "$muted")])
        return [columns(title, facts, width)]


class PageLegend(LinesWidget):
    """The legend under a map."""

    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """The meaning and number of each kind of page; then the tokens stored beyond the cache."""
        event = state.pages
        if event is None:
            return []
        counts = page_counts(event, state.label)
        numbers = {page: number_format.tokens(counts[page]) for page in LEGEND}
        parts = [
            signs([(page.glyph, STYLES[page]), f" {page.word} ", (numbers[page], "$muted")])
            for page in LEGEND
        ]
        if state.evicted:
            evicted = number_format.tokens(state.evicted)
            parts.append(signs([EVICTED, " evicted ", (evicted, "$muted")]))
        return in_columns(parts, width) + _tier_lines(event, width)


def _tier_lines(event: PagesEvent, width: int) -> list[Content]:
    """The tokens stored beyond the cache in one line, without the unit if it does not fit."""
    tiers = [
        f"{where} {number_format.tokens(tokens)}"
        for where, tokens in (("in memory", event.memory_tokens), ("on disk", event.disk_tokens))
        if tokens
    ]
    whole = " · ".join(f"{tier} tok" for tier in tiers)
    line = whole if len(whole) <= width else " · ".join(tiers)
    return [signs([(line, "$muted")]).truncate(width, ellipsis=True)] if tiers else []
