"""Draws the lines of entries in a scroll view; strips of lines that did not change are kept."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..entries.entry import Entry, RenderOptions
from ..lines.line import RenderedLine
from .rendered_lines_cache import RenderedLinesCache
from .transcript_layout import TranscriptLayout

MAX_TEXT_WIDTH = 100
"""Longer lines of prose are hard to read."""
MAX_STRIPS = 600


class LineView(ScrollView):
    """Draws what `_layout_map` places; nothing before `_options` is known."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._entries: list[Entry] = []
        self._layout_map = TranscriptLayout()
        self._kept = RenderedLinesCache()
        self._options: RenderOptions | None = None
        self._base = Style.null()
        self._strips: dict[int, tuple[RenderedLine, Strip]] = {}

    @property
    def text_width(self) -> int:
        """Cells for text in a line."""
        return max(10, min(MAX_TEXT_WIDTH, self.size.width - 2))

    @property
    def margin(self) -> int:
        """Cells left of the text, which stands in the middle of a wide screen."""
        return max(1, (self.size.width - self.text_width) // 2)

    def _rendered(self, entry: Entry, options: RenderOptions) -> list[RenderedLine]:
        lines = entry.lines(options)
        self._kept.touch(entry, len(lines))
        return lines

    def redraw(self) -> None:
        """Draw all lines anew, since marks on them changed."""
        self._strips.clear()
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """What is in `crop`, straight from the kept strips.

        What Textual does between the two, for borders, padding and tints, which this widget has
        not, makes new strips each time, and they forget how they are cut and written.
        """
        _, background = self.background_colors
        strips = [self.render_line(y) for y in crop.line_range]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.column_span == (0, self.region.width):
            return strips
        return [strip.crop(*crop.column_span) for strip in strips]

    def render_line(self, y: int) -> Strip:
        """One line of the view: a line of an entry, centred, with its marks."""
        width = self.size.width
        position = y + self.scroll_offset.y
        found = self._line_at(position)
        if found is None:
            return Strip.blank(width, self._base)
        _, _, line = found
        kept = self._strips.get(position)
        if kept is not None and kept[0] is line and kept[1].cell_length == width:
            return kept[1]
        strip = Strip(self._decorated(*found, position)).crop_extend(0, width, self._base)
        strip = strip.apply_style(self._base).apply_offsets(-self.margin, position)
        if len(self._strips) >= MAX_STRIPS:
            self._strips.clear()
        self._strips[position] = (line, strip)
        return strip

    def _decorated(
        self, entry: Entry, offset: int, line: RenderedLine, position: int
    ) -> list[Segment]:
        """The line's segments behind the margin; line `offset` of its entry, `position` of all."""
        return [Segment(" " * self.margin), *line.segments]

    def _line_at(self, y: int) -> tuple[Entry, int, RenderedLine] | None:
        """The entry at a line of the content, the line's number within it, and the line."""
        if self._options is None or not 0 <= y < self._layout_map.total:
            return None
        index, offset = self._layout_map.locate(y)
        entry = self._entries[index]
        lines = self._rendered(entry, self._options)
        return (entry, offset, lines[offset]) if offset < len(lines) else None
