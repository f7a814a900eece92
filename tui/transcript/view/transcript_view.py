"""Scroll view of transcript entries on Textual's line API.

A widget for each message, or each Markdown block, makes typing slow in long chats, since the
compositor visits them all. Here a chat of any length is one widget that renders only what is
visible.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.geometry import Region
from textual.message import Message

from ..entries.entry import Entry, RenderOptions
from ..lines import RenderedLine, TranscriptStyles, component_classes
from .line_view import LineView

ESTIMATED_WIDTH = 80
"""Cells for heights that are estimated before the size is known."""
IDLE_STEP = 0.04
"""Seconds between two steps of idle measuring."""
IDLE_WORK = 0.003
"""Seconds that a step takes at most, except its last entry, so that keys are not delayed."""
IDLE_REACH = 120
"""Entries above and below the view that are measured ahead; the others stay estimates."""


class TranscriptView(LineView):
    """Shows entries; follows the end unless the reader scrolled up."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {class_name for _, class_name in component_classes()}

    @dataclass
    class NewLines(Message):
        """The number of lines added below the view; 0 when the end is followed."""

        count: int

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._display = (True, True)
        self._wanted: tuple[str, int] | None = None
        self.following = True
        """Whether the view stays at the end when something is added."""
        self._new_lines = 0
        self._adjusting = False
        self._idle_pending = False

    @property
    def is_measuring(self) -> bool:
        """Return whether heights near the view are still estimates."""
        return self._next_estimated() is not None

    # Content

    def load(self, entries: Iterable[Entry], at: str | None = None) -> None:
        """Show these entries instead, at the one with the id `at` or at the end.

        Only the visible part is rendered now; other heights are estimates. Without `at`, a
        scrolled-up view stays at its entry if that is still present; fold states are kept.
        """
        place = None if at is not None or self.following else self._anchor()
        read = None if place is None else self.entries[place[0]]
        earlier = {entry.id: entry for entry in self.entries if entry.id}
        self.entries = list(entries)
        for entry in self.entries:
            if (before := earlier.get(entry.id)) is not None:
                entry.copy_folds(before)
        self._kept.clear()
        self._strips.clear()
        self.following = True
        self._set_new_lines(0)
        self._wanted = None if at is None else (at, 0)
        width = ESTIMATED_WIDTH if self._options is None else self._options.width
        self._layout_map.estimate([entry.estimated_height(width) for entry in self.entries])
        same = None if read is None else self.find_entry(read.id)
        if place is not None and same is not None:
            self.following = False
            self._return_to((self._index(same), place[1]))
            self._settle_view()
        else:
            self._show_wanted()
        self.refresh()

    def add(self, entry: Entry) -> None:
        """Append an entry."""
        self.entries.append(entry)
        self._layout_map.append(entry.estimated_height(ESTIMATED_WIDTH))
        if self._options is not None:
            self._measure(len(self.entries) - 1)
            self._grew(self._layout_map.heights[-1])
            self.refresh()

    def update_entry(self, entry: Entry) -> None:
        """Show the changes of an entry, if it is in the transcript."""
        options = self._options
        if options is None or not self.holds(entry):
            return
        index = self._index(entry)
        old = entry.previous_lines
        new = self._rendered(entry, options)
        top, height = self._layout_map.top(index), self._layout_map.heights[index]
        change = self._layout_map.set_exact(index, len(new))
        if change and not self.following and top + height <= self.scroll_offset.y:
            self._adjust(change)
        elif change and index == len(self.entries) - 1:
            self._grew(change)
        elif change:
            self._adjust()
        if change:
            self._refresh_from(top + _first_difference(old, new))
        else:
            self._refresh_rows(top, old, new)

    def drop(self, entry: Entry) -> None:
        """Remove an entry, if present."""
        if not self.holds(entry):
            return
        index = self._index(entry)
        del self.entries[index]
        self._layout_map.remove(index)
        self._kept.discard(entry)
        self._adjust()
        self.refresh()

    def clear(self) -> None:
        """Remove all entries."""
        self.load(())

    def find_entry(self, name: str) -> Entry | None:
        """Return the entry with this id, None if missing."""
        return next((entry for entry in self.entries if entry.id == name), None) if name else None

    def holds(self, entry: Entry) -> bool:
        """Return whether it is in the transcript: an answer may be generated on another branch."""
        return any(held is entry for held in reversed(self.entries))

    @property
    def first_in_view(self) -> Entry | None:
        """Return the entry at the top of the view."""
        y = self.scroll_offset.y
        if y >= self._layout_map.total:
            return None
        return self.entries[self._layout_map.locate(y)[0]]

    def _index(self, entry: Entry) -> int:
        """Return the index of an entry; most changes are near the end."""
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index] is entry:
                return index
        raise ValueError("the entry is not in the transcript")

    # Scrolling

    def follow(self) -> None:
        """Go to the end, and follow it."""
        self.following = True
        self._set_new_lines(0)
        self._show_end()

    def scroll_to_entry(self, name: str, line: int = 0) -> bool:
        """Show an entry by its id at the top, or its line a little below; return whether it is
        present.
        """
        entry = self.find_entry(name)
        if entry is None:
            return False
        if self._options is None:
            self._wanted = (name, line)
            return True
        self.show_line(entry, line, self.size.height // 3 if line else 0)
        return True

    def show_line(self, entry: Entry, line: int, above: int) -> None:
        """Scroll to a line of an entry, with `above` lines over it."""
        index = self._index(entry)
        self.following = False
        self._measure(index)
        self._adjust(round(self._layout_map.top(index) + line - above - self.scroll_y))
        self._settle_view()

    def show_lines(self, entry: Entry, first: int, last: int) -> None:
        """Scroll as little as needed to make these lines of an entry visible."""
        index = self._index(entry)
        self._measure(index)
        top = self._layout_map.top(index)
        view, height = self.scroll_offset.y, self.size.height
        if top + first < view or last - first >= height:
            target = top + first
        elif top + last >= view + height:
            target = top + last - height + 1
        else:
            return
        self.following = False
        self._adjust(target - view)
        self._settle_view()

    def _settle_view(self) -> None:
        """Measure visible entries; at the end of the content, follow it again."""
        self._measure_visible()
        self.following = round(self.scroll_y) >= self.max_scroll_y
        self._set_new_lines(0)
        self._schedule_idle()
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._options is None or self._adjusting or round(old_value) == round(new_value):
            return
        # Outside of `_adjust` only the user scrolls.
        self.following = round(new_value) >= self.max_scroll_y
        if self.following:
            self._set_new_lines(0)
        self._measure_visible()
        self._schedule_idle()

    def _grew(self, lines: int) -> None:
        """Count `lines` added at the end."""
        self._adjust()
        if not self.following:
            self._set_new_lines(max(0, self._new_lines + lines))

    def _adjust(self, shift: int = 0) -> None:
        """Apply the height of the content; scroll to the end or by `shift`."""
        self._adjusting = True
        y = self.scroll_y + shift
        is_at_end = self.following and self.scroll_y >= self.max_scroll_y
        self._set_content_height(self._layout_map.total, is_at_end=is_at_end)
        if self.following:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)
        else:
            self.scroll_to(y=y, animate=False, immediate=True, force=True)
        self._adjusting = False

    def _set_new_lines(self, count: int) -> None:
        if count != self._new_lines:
            self._new_lines = count
            self.post_message(self.NewLines(count))

    # Layout: visible entries are rendered at once, nearby ones in idle time

    def on_resize(self, _event: events.Resize) -> None:
        self._update_options()
        self._adjust()
        self._measure_visible()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted and self._options is not None:
            # The parts' own styles come after the widget's.
            self.call_later(self._update_options)

    def set_display(self, *, times: bool, folded_reasoning: bool) -> None:
        """Set whether messages show their times, and whether reasoning is folded initially."""
        self._display = (times, folded_reasoning)
        if self._options is not None:
            self._update_options()

    def _update_options(self) -> None:
        styles = TranscriptStyles.resolve(
            lambda name: self.get_component_rich_style(name, partial=True)
        )
        options = RenderOptions(styles, self.text_width, *self._display)
        base = self.rich_style
        if base != self._base:
            self._base = base
            self._strips.clear()
        if options == self._options or not self.size.width:
            return
        anchor = self._anchor()
        self._options = options
        self._strips.clear()
        self._layout_map.estimate([entry.estimated_height(options.width) for entry in self.entries])
        if self._wanted is not None:
            self._show_wanted()
        else:
            self._return_to(anchor)
        self._measure_visible()
        self._schedule_idle()
        self.refresh()

    def _show_wanted(self) -> None:
        """Go to the entry that `load` requested, as soon as there is a size."""
        if self._options is None:
            return
        wanted, self._wanted = self._wanted, None
        if wanted is None or not self.scroll_to_entry(*wanted):
            self._show_end()
            self._schedule_idle()

    def _anchor(self) -> tuple[int, float] | None:
        """Return the entry at the top of the view and the offset in it, None if the end is
        followed.
        """
        y = self.scroll_offset.y
        if self.following or not self.entries or y >= self._layout_map.total:
            return None
        index, line = self._layout_map.locate(y)
        return index, line / max(1, self._layout_map.heights[index])

    def _return_to(self, anchor: tuple[int, float] | None) -> None:
        if anchor is None:
            self._show_end()
            return
        index, fraction = anchor
        self._measure(index)
        top = self._layout_map.top(index) + fraction * self._layout_map.heights[index]
        self._adjust(round(top - self.scroll_y))

    def _show_end(self) -> None:
        """Measure the entries of the last screen, then apply the height."""
        room = self.size.height
        for index in range(len(self.entries) - 1, -1, -1):
            self._measure(index)
            room -= self._layout_map.heights[index]
            if room <= 0:
                break
        self._adjust()

    def _measure_visible(self) -> None:
        """Replace estimates of visible entries; the visible lines stay where they are."""
        y, shift = self.scroll_offset.y, 0
        while y < min(self.scroll_offset.y + shift + self.size.height, self._layout_map.total):
            index, _ = self._layout_map.locate(y)
            above = self._layout_map.top(index) < self.scroll_offset.y + shift
            change = self._measure(index)
            if above:
                shift += change
            y = max(y + 1, self._layout_map.top(index) + self._layout_map.heights[index])
        if shift or self.virtual_size.height != self._layout_map.total:
            self._adjust(shift)

    def _measure(self, index: int) -> int:
        """Replace an estimated height by the real one; return the difference."""
        options = self._options
        if options is None or self._layout_map.exact[index]:
            return 0
        return self._layout_map.set_exact(index, len(self._rendered(self.entries[index], options)))

    def _schedule_idle(self) -> None:
        if not self._idle_pending and self._next_estimated() is not None:
            self._idle_pending = True
            self.set_timer(IDLE_STEP, self._measure_idle)

    def _next_estimated(self) -> int | None:
        if self._options is None or not self.entries:
            return None
        last = self._layout_map.total - 1
        first, _ = self._layout_map.locate(min(last, self.scroll_offset.y))
        end, _ = self._layout_map.locate(min(last, self.scroll_offset.y + self.size.height))
        return self._layout_map.nearest_estimated(first, end, IDLE_REACH)

    def _measure_idle(self) -> None:
        self._idle_pending = False
        deadline = time.monotonic() + IDLE_WORK
        shift = 0
        while (index := self._next_estimated()) is not None:
            above = self._layout_map.top(index) < self.scroll_offset.y
            change = self._measure(index)
            shift += change if above else 0
            if time.monotonic() > deadline:
                break
        self._adjust(shift)
        self._schedule_idle()

    def _refresh_from(self, y: int) -> None:
        """Redraw from line `y` on; everything if the view moved."""
        first = 0 if self.following else max(0, y - self.scroll_offset.y)
        if first < self.size.height:
            self.refresh(Region(0, first, self.size.width, self.size.height - first))

    def _refresh_rows(self, top: int, old: list[RenderedLine], new: list[RenderedLine]) -> None:
        """Redraw the visible lines that differ, of an entry whose first line is `top`."""
        width, view = self.size.width, self.scroll_offset.y
        first, end = max(0, view - top), max(0, view + self.size.height - top)
        pairs = zip(old[first:end], new[first:end], strict=True)
        rows = [top + first - view + n for n, (a, b) in enumerate(pairs) if a is not b and a != b]
        if rows:
            self.refresh(*(Region(0, row, width, 1) for row in rows))


def _first_difference(old: list[RenderedLine], new: list[RenderedLine]) -> int:
    for index, (before, after) in enumerate(zip(old, new, strict=False)):
        if before is not after:
            return index
    return min(len(old), len(new))
