"""`Transcript`: the whole conversation, with what readers do in it: selecting and copying."""

from __future__ import annotations

from rich.segment import Segment
from textual.selection import Selection

from .entry import Entry
from .line import Line
from .selected_text import marked, selected_text
from .transcript_view import TranscriptView


class Transcript(TranscriptView):
    """The conversation on the screen."""

    def _decorated(self, entry: Entry, offset: int, line: Line, position: int) -> list[Segment]:
        segments = list(line.segments)
        selection = self.text_selection
        span = None if selection is None else selection.get_span(position)
        if span is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            segments = marked(segments, span, style)
        return [Segment(" " * self.margin), *segments]

    def selection_updated(self, selection: Selection | None) -> None:
        self.redraw()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text, without layout and with soft-wrapped lines joined again."""
        total = self._layout_map.total
        first = 0 if selection.start is None else max(0, selection.start.y)
        last = total - 1 if selection.end is None else min(total - 1, selection.end.y)
        spans: list[tuple[Line, tuple[int, int]]] = []
        for y in range(first, last + 1):
            found, span = self._line_at(y), selection.get_span(y)
            if found is not None and span is not None:
                spans.append((found[2], span))
        return selected_text(spans), "\n"
