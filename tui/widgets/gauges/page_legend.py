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
    """The line over a map: `KV CACHE    1 cell = 6 pages of 32 tokens`."""

    def __init__(self, style: str = "bold") -> None:
        super().__init__()
        self._style = style

    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """One line; narrow, `1 cell = 192 tokens`."""
        title, event = signs([("KV CACHE", self._style)]), state.pages
        if event is None:
            return [title]
        assert self.parent is not None
        per_cell = pages_per_cell(event.pages, self.parent.query_one(PageMapView).room)
        pages = number_format.counted(per_cell, "page")
        facts = f"1 cell = {pages} of {event.page_tokens} tokens"
        if len(facts) + 10 > width:
            facts = f"1 cell = {number_format.tokens(per_cell * event.page_tokens)} tokens"
        return [columns(title, signs([(facts, "$muted")]), width)]


class PageLegend(LinesWidget):
    """The legend under a map."""

    def draw(self, state: GaugeState, width: int) -> list[Content]:
        """The tokens of each kind of page; then those that are stored beyond the cache."""
        event = state.pages
        if event is None:
            return []
        counts = page_counts(event, state.label)
        size = event.page_tokens
        numbers = {page: number_format.tokens(counts[page] * size) for page in LEGEND}
        numbers[LEGEND[-1]] += " tok"  # the unit of all
        parts = [
            signs([(page.glyph, STYLES[page]), f" {page.word} ", (numbers[page], "$muted")])
            for page in LEGEND
        ]
        if state.evicted:
            evicted = number_format.tokens(state.evicted * size)
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
