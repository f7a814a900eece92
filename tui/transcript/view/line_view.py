"""Draws the lines of entries in a scroll view; strips of lines that did not change are kept."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from itertools import accumulate
from math import ceil

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from ..entries.entry import Entry, RenderOptions
from ..lines import RenderedLine

MAX_LINES = 6000
"""Most lines cached in all, about half a kilobyte each."""
MIN_ENTRIES = 48
"""Entries that keep their lines regardless of length: more than a screen shows."""


class RenderedLinesCache:
    """Frees the lines of the least recently shown entries when there are too many."""

    def __init__(self, max_lines: int = MAX_LINES) -> None:
        self._max_lines = max_lines
        self._counts: OrderedDict[Entry, int] = OrderedDict()
        self.total = 0
        """The number of cached lines."""

    def touch(self, entry: Entry, lines: int) -> None:
        """Record that the entry was rendered or shown."""
        self.total += lines - self._counts.pop(entry, 0)
        self._counts[entry] = lines
        while self.total > self._max_lines and len(self._counts) > MIN_ENTRIES:
            oldest, count = self._counts.popitem(last=False)
            self.total -= count
            oldest.forget_lines()

    def discard(self, entry: Entry) -> None:
        """Remove an entry."""
        self.total -= self._counts.pop(entry, 0)

    def clear(self) -> None:
        """Remove all entries."""
        self._counts.clear()
        self.total = 0


class TranscriptLayout:
    """Heights of entries, in lines, and the resulting positions."""

    def __init__(self) -> None:
        self.heights: list[int] = []
        self.exact: list[bool] = []
        """Whether the height of each entry is known rather than estimated."""
        # The top of each entry and the end of the last, as far as known.
        self._tops: list[int] = [0]

    @property
    def total(self) -> int:
        """Return the total height."""
        return self._positions()[-1]

    def append(self, height: int) -> None:
        """Add an entry of an estimated height at the end."""
        self.heights.append(height)
        self.exact.append(False)

    def remove(self, index: int) -> None:
        """Remove an entry."""
        del self.heights[index]
        del self.exact[index]
        self._changed_from(index)

    def set_exact(self, index: int, height: int) -> int:
        """Set a known height; return its difference from before."""
        change = height - self.heights[index]
        self.exact[index] = True
        if change:
            self.heights[index] = height
            self._changed_from(index)
        return change

    def estimate(self, heights: list[int]) -> None:
        """Replace all heights by estimates."""
        self.heights = heights
        self.exact = [False] * len(heights)
        self._tops = [0]

    def nearest_estimated(self, first: int, last: int, reach: int) -> int | None:
        """Return the entry with an estimated height nearest to those from `first` to `last`.

        At most `reach` entries away; those above come first, since users scroll up.
        """
        for step in range(reach + 1):
            for index in (first - step, last + step):
                if 0 <= index < len(self.exact) and not self.exact[index]:
                    return index
        return None

    def top(self, index: int) -> int:
        """Return the first line of an entry."""
        return self._positions()[index]

    def locate(self, y: int) -> tuple[int, int]:
        """Return the entry at line `y`, and the line within it; `y` is below `total`."""
        positions = self._positions()
        index = bisect_right(positions, y, hi=len(self.heights)) - 1
        return index, y - positions[index]

    def _changed_from(self, index: int) -> None:
        """Invalidate positions after a changed entry: those above stay, so that a growing answer at
        the end of a long chat costs nothing.
        """
        del self._tops[index + 1 :]

    def _positions(self) -> list[int]:
        known = len(self._tops) - 1
        if known < len(self.heights):
            end = self._tops.pop()
            self._tops += accumulate(self.heights[known:], initial=end)
        return self._tops


MAX_TEXT_WIDTH = 100
"""Longer lines of prose are hard to read."""
MAX_STRIPS = 600


class LineView(ScrollView):
    """Draws the entries at the positions in `_layout_map`, once `_options` are known."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.entries: list[Entry] = []
        """The entries in order; only `TranscriptView` modifies the list."""
        self._layout_map = TranscriptLayout()
        self._kept = RenderedLinesCache()
        self._options: RenderOptions | None = None
        self._base = Style.null()
        self._strips: dict[int, tuple[RenderedLine, Strip]] = {}

    @property
    def text_width(self) -> int:
        """Return the cells for text in a line."""
        return max(10, min(MAX_TEXT_WIDTH, self.size.width - 2))

    @property
    def margin(self) -> int:
        """Return the cells left of the text, which is centred on a wide screen."""
        # With the scroll bar's cell: the text stays in line with the composer.
        return max(1, (self.outer_size.width - self.text_width) // 2)

    def _rendered(self, entry: Entry, options: RenderOptions) -> list[RenderedLine]:
        lines = entry.lines(options)
        self._kept.touch(entry, len(lines))
        return lines

    def _set_content_height(self, height: int, *, is_at_end: bool) -> None:
        """Set the height of the content, of which the end is shown now and then if `is_at_end`.

        There is a new layout of the screen only where the scroll bar comes or goes.
        """
        size, before, shown = Size(self.size.width, height), self.virtual_size, self.size.height
        if not self.show_vertical_scrollbar or height <= shown or size.width != before.width:
            self.virtual_size = size
            return
        self.set_reactive(LineView.virtual_size, size)  # pyright: ignore[reportArgumentType]
        bar = self.vertical_scrollbar
        if is_at_end and _thumb(shown, before.height) == _thumb(shown, height):
            # Drawing the bar costs as much as drawing the text.
            bar.set_reactive(ScrollBar.window_virtual_size, height)
            bar.set_reactive(ScrollBar.position, float(self.max_scroll_y))
        else:
            bar.window_virtual_size = height

    def redraw(self) -> None:
        """Draw all lines again, since marks on them changed."""
        self._strips.clear()
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines in `crop` from the cached strips.

        Textual's own method makes new strips each time, for borders, padding and tints, which this
        widget does not have; new strips have lost their caches of crops and of output.
        """
        _, background = self.background_colors
        strips = [self.render_line(y) for y in crop.line_range]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.column_span == (0, self.region.width):
            return strips
        return [strip.crop(*crop.column_span) for strip in strips]

    def render_line(self, y: int) -> Strip:
        """Return one line of the view: a line of an entry, centred, with its marks."""
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
        """Return a line's segments after the margin; it is line `offset` of its entry."""
        return [Segment(" " * self.margin), *line.segments]

    def _line_at(self, y: int) -> tuple[Entry, int, RenderedLine] | None:
        """Return the entry at a line of the content, the line's number within it, and the line."""
        if self._options is None or not 0 <= y < self._layout_map.total:
            return None
        index, offset = self._layout_map.locate(y)
        entry = self.entries[index]
        # What an answer has grown by since then comes with its next height.
        lines = entry.rendered_lines(self._options)
        self._kept.touch(entry, len(lines))
        return (entry, offset, lines[offset]) if offset < len(lines) else None


def _thumb(height: int, total: int) -> tuple[int, int]:
    """Return place and length of the scroll bar's thumb at the end, in eighths of a cell."""
    length = max(1.0, height * height / total)
    return int((height - length) * 8), ceil(length * 8)
