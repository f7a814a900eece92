"""`PageLegend`: what the signs of the page map mean, and how many pages are so."""

from __future__ import annotations

from textual.content import Content

from ingle.daemon.client.daemon_types import PagesEvent

from ...gauges.page_map_cells import PageState, page_counts, pages_per_cell
from ...text import number_format
from .glyph_text import columns, signs
from .lines_widget import LinesWidget
from .page_map import EVICTED, STYLES


def page_title(event: PagesEvent | None, room: int, width: int) -> Content:
    """`KV PAGES    32 tok each · cell = 6`."""
    title = signs([("KV PAGES", "bold")])
    if event is None:
        return title
    per_cell = pages_per_cell(event.pages, room)
    cell = f" · cell = {per_cell}" if per_cell > 1 else ""
    return columns(title, signs([(f"{event.page_tokens} tok each{cell}", "$muted")]), width)


def page_legend(event: PagesEvent, label: str, evicted: int, width: int) -> list[Content]:
    """Signs, what they mean, and how many pages are so; then what is stored beyond the cache."""
    counts = page_counts(event, label)
    order = (PageState.SHARED, PageState.MINE, PageState.UNDO, PageState.REUSABLE, PageState.FREE)
    parts = [
        signs([(s.glyph, STYLES[s]), " ", s.word, " ", (number_format.tokens(counts[s]), "$muted")])
        for s in order
    ]
    if evicted:
        parts.append(signs([EVICTED, " evicted ", (number_format.tokens(evicted), "$muted")]))
    lines = _in_columns(parts, width)
    lines += _tier_lines(event, width)
    return lines


def _in_columns(parts: list[Content], width: int) -> list[Content]:
    gap = 3
    if sum(part.cell_length + gap for part in parts) - gap <= width:
        return [Content(" " * gap).join(parts)]
    half = max(width // 2, max(part.cell_length for part in parts[::2]) + 2)
    return [
        Content.assemble(
            row[0], *((" " * (half - row[0].cell_length), row[1]) if len(row) > 1 else ())
        ).truncate(width)
        for row in (parts[at : at + 2] for at in range(0, len(parts), 2))
    ]


def _tier_lines(event: PagesEvent, width: int) -> list[Content]:
    """What is stored beyond the cache: in one line, without its unit where that has no room."""
    tiers = [
        f"{where} {number_format.tokens(tokens)}"
        for where, tokens in (("in memory", event.memory_tokens), ("on disk", event.disk_tokens))
        if tokens
    ]
    whole = " · ".join(f"{tier} tok" for tier in tiers)
    line = whole if len(whole) <= width else " · ".join(tiers)
    return [signs([(line, "$muted")]).truncate(width, ellipsis=True)] if tiers else []


class PageLegend(LinesWidget):
    """The legend under a map."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[PagesEvent | None, str, int] = (None, "", 0)

    def show(self, event: PagesEvent | None, label: str, evicted: int) -> None:
        """Tell the counts as the chat sent as `label` sees them."""
        self._shown = (event, label, evicted)
        self.changed()

    def draw(self, width: int) -> list[Content]:
        """Two columns, or one line where that has room."""
        event, label, evicted = self._shown
        return [] if event is None else page_legend(event, label, evicted, width)
