"""`Transcript`: the whole conversation in one scroll view on Textual's line API.

A widget for each message, or each block of Markdown, makes typing slow in long chats: the
compositor visits them all. Here a chat of any length is one widget that renders what is visible.
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from .entries import Entry, Look
from .line import Line
from .styles import TranscriptStyles, component_classes
from .transcript_layout import TranscriptLayout

MAX_TEXT_WIDTH = 100
"""Longer lines of prose are hard to read."""
IDLE_STEP = 0.03
"""Seconds between two entries that are measured while nothing else happens."""


class Transcript(ScrollView):
    """Shows entries; follows the end unless the reader scrolled up."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {class_name for _, class_name in component_classes()}

    class NewLines(Message):
        """How many lines came below what the reader sees; 0 when the end is followed."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self.count = count

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._entries: list[Entry] = []
        self._layout_map = TranscriptLayout()
        self._look: Look | None = None
        self._following = True
        self._new_lines = 0
        self._adjusting = False
        self._idle_pending = False

    @property
    def following(self) -> bool:
        """Whether the view stays at the end when something is added."""
        return self._following

    @property
    def entries(self) -> list[Entry]:
        """The entries, in order; not to be changed."""
        return self._entries

    @property
    def text_width(self) -> int:
        """Cells for text in a line."""
        return max(10, min(MAX_TEXT_WIDTH, self.size.width - 2))

    @property
    def margin(self) -> int:
        """Cells left of the text, which stands in the middle of a wide screen."""
        return max(1, (self.size.width - self.text_width) // 2)

    def add(self, entry: Entry) -> None:
        """Append an entry."""
        self._entries.append(entry)
        look = self._look
        if look is None:
            self._layout_map.append(entry.estimated_height(80), exact=False)
            return
        height = len(entry.lines(look))
        self._layout_map.append(height, exact=True)
        self._grew(height)
        self.refresh()

    def update_entry(self, entry: Entry) -> None:
        """Show what changed in an entry that is in the transcript."""
        look = self._look
        if look is None:
            return
        index = self._index(entry)
        old = entry.previous_lines
        new = entry.lines(look)
        change = self._layout_map.set_exact(index, len(new))
        if change:
            self._grew(change)
        self._refresh_from(self._layout_map.top(index) + _first_difference(old, new), change)

    def drop(self, entry: Entry) -> None:
        """Take an entry away."""
        index = self._index(entry)
        del self._entries[index]
        self._layout_map.remove(index)
        self._adjust()
        self.refresh()

    def clear(self) -> None:
        """Take all entries away."""
        self._entries.clear()
        self._layout_map.clear()
        self._following = True
        self._set_new_lines(0)
        self._adjust()
        self.refresh()

    def _index(self, entry: Entry) -> int:
        """Where an entry is; what changes is near the end."""
        return len(self._entries) - 1 - self._entries[::-1].index(entry)

    def follow(self) -> None:
        """Go to the end, and stay there."""
        self._following = True
        self._set_new_lines(0)
        self._adjust()

    # Scrolling

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._look is None or self._adjusting or round(old_value) == round(new_value):
            return
        # Only the reader moves the view outside of `_adjust`.
        self._following = round(new_value) >= self.max_scroll_y
        if self._following:
            self._set_new_lines(0)
        self._measure_visible()

    def _grew(self, lines: int) -> None:
        """The content is `lines` longer at its end."""
        self._adjust()
        if not self._following:
            self._set_new_lines(max(0, self._new_lines + lines))

    def _adjust(self, shift: int = 0) -> None:
        """Take over the height of the content; the view goes to the end or moves by `shift`."""
        self._adjusting = True
        y = self.scroll_y + shift
        self.virtual_size = Size(self.size.width, self._layout_map.total)
        if self._following:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)
        else:
            self.scroll_to(y=y, animate=False, immediate=True, force=True)
        self._adjusting = False

    def _set_new_lines(self, count: int) -> None:
        if count != self._new_lines:
            self._new_lines = count
            self.post_message(self.NewLines(count))

    # Layout: only what is visible is rendered at once, the rest while nothing else happens

    def on_resize(self, _event: events.Resize) -> None:
        self._new_look()
        self._adjust()
        self._measure_visible()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted and self._look is not None:
            self._new_look()

    def _new_look(self) -> None:
        styles = TranscriptStyles.resolve(
            lambda name: self.get_component_rich_style(name, partial=True)
        )
        look = Look(styles, self.text_width)
        if look == self._look or not self.size.width:
            return
        anchor = self._anchor()
        self._look = look
        self._layout_map.guess([entry.estimated_height(look.width) for entry in self._entries])
        self._return_to(anchor)
        self._measure_visible()
        self._schedule_idle()
        self.refresh()

    def _anchor(self) -> tuple[int, float] | None:
        """The entry at the top of the view and how far into it, None where the end is followed."""
        y = self.scroll_offset.y
        if self._following or not self._entries or y >= self._layout_map.total:
            return None
        index, line = self._layout_map.locate(y)
        return index, line / max(1, self._layout_map.height(index))

    def _return_to(self, anchor: tuple[int, float] | None) -> None:
        if anchor is None:
            self._measure_end()
            self._adjust()
            return
        index, fraction = anchor
        self._measure(index)
        top = self._layout_map.top(index) + fraction * self._layout_map.height(index)
        self._adjust(round(top - self.scroll_y))

    def _measure_end(self) -> None:
        room = self.size.height
        for index in range(len(self._entries) - 1, -1, -1):
            self._measure(index)
            room -= self._layout_map.height(index)
            if room <= 0:
                break

    def _measure_visible(self) -> None:
        """Replace guesses for everything in view; the lines in view stay where they are."""
        y = self.scroll_offset.y
        while y < min(self.scroll_offset.y + self.size.height, self._layout_map.total):
            index, _ = self._layout_map.locate(y)
            self._measure(index)
            y = max(y + 1, self._layout_map.top(index) + self._layout_map.height(index))

    def _measure(self, index: int) -> None:
        look = self._look
        if look is None or self._layout_map.is_exact(index):
            return
        top = self._layout_map.top(index)
        change = self._layout_map.set_exact(index, len(self._entries[index].lines(look)))
        if not change:
            return
        self._adjust(change if top < self.scroll_offset.y else 0)

    def _schedule_idle(self) -> None:
        if not self._idle_pending and self._layout_map.last_guessed() is not None:
            self._idle_pending = True
            self.set_timer(IDLE_STEP, self._measure_idle)

    def _measure_idle(self) -> None:
        self._idle_pending = False
        index = self._layout_map.last_guessed()
        if index is not None:
            self._measure(index)
            self._schedule_idle()

    # Drawing

    def _refresh_from(self, y: int, change: int) -> None:
        """Redraw from line `y` on; all of it when the view moved."""
        if change and self._following:
            self.refresh()
            return
        first = y - self.scroll_offset.y
        if first < self.size.height:
            first = max(0, first)
            self.refresh(Region(0, first, self.size.width, self.size.height - first))

    def render_line(self, y: int) -> Strip:
        """One line of the view: a line of an entry, centred, with what is selected marked."""
        width = self.size.width
        base = self.rich_style
        position = y + self.scroll_offset.y
        line = self._line_at(position)
        if line is None:
            return Strip.blank(width, base)
        margin = Segment(" " * self.margin)
        strip = Strip([margin, *self._selected(line, position)])
        strip = strip.crop_extend(0, width, base).apply_style(base)
        return strip.apply_offsets(-self.margin, position)

    def _line_at(self, y: int) -> Line | None:
        if self._look is None or y >= self._layout_map.total:
            return None
        index, offset = self._layout_map.locate(y)
        lines = self._entries[index].lines(self._look)
        return lines[offset] if offset < len(lines) else None

    # Selection

    def _selected(self, line: Line, y: int) -> list[Segment]:
        selection = self.text_selection
        span = None if selection is None else selection.get_span(y)
        if span is None:
            return list(line.segments)
        style = self.screen.get_component_rich_style("screen--selection")
        return _highlighted(line, span, style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text, without layout and with soft-wrapped lines joined again."""
        total = self._layout_map.total
        first = 0 if selection.start is None else max(0, selection.start.y)
        last = total - 1 if selection.end is None else min(total - 1, selection.end.y)
        parts: list[str] = []
        for y in range(first, last + 1):
            line = self._line_at(y)
            span = selection.get_span(y)
            if line is None or span is None:
                continue
            start, end = max(line.indent, span[0]), None if span[1] == -1 else span[1]
            text = line.text[start:end].rstrip()
            joint = " " if line.soft else "\n"
            parts.append(f"{joint}{text}" if parts else text)
        return "".join(parts), "\n"


def _first_difference(old: list[Line], new: list[Line]) -> int:
    for index, (before, after) in enumerate(zip(old, new, strict=False)):
        if before is not after:
            return index
    return min(len(old), len(new))


def _highlighted(line: Line, span: tuple[int, int], style: Style) -> list[Segment]:
    """The line's segments with `style` over the characters in `span`."""
    start, end = span
    end = len(line.text) if end == -1 else end
    segments: list[Segment] = []
    x = 0
    for text, own, _ in line.segments:
        cuts = (max(0, min(len(text), start - x)), max(0, min(len(text), end - x)))
        pieces = ((text[: cuts[0]], own), (text[cuts[0] : cuts[1]], None), (text[cuts[1] :], own))
        for index, (piece, piece_style) in enumerate(pieces):
            if piece:
                marked = (own + style if own else style) if index == 1 else piece_style
                segments.append(Segment(piece, marked))
        x += len(text)
    return segments
