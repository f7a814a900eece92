"""The transcript widget: selection, block navigation, folding and search marks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Offset
from textual.message import Message
from textual.scrollbar import ScrollBar
from textual.selection import Selection
from textual.widget import Widget

from ..entries.entry import Entry
from ..lines import RenderedLine, marked, selected_text
from .block_navigation import KEY_ACTIONS, KEYS, Action, BlockStop, stops
from .transcript_search import Span, hit_spans
from .transcript_view import TranscriptView

WORD = re.compile(r"[\w'’./:@~#?&=%+-]+")


class Transcript(TranscriptView, can_focus=False):
    """The conversation on the screen; it has the focus only while the block cursor is shown."""

    HELP_TITLE = "A block of the chat"
    HELP_KEYS = (
        ("up  down", "The previous block, the next block; with vim keys k, j, g and G, too"),
        *((key, words) for key, _, words in KEY_ACTIONS),
        ("esc", "Return to the draft; so does any other letter"),
    )

    @dataclass
    class BlockAction(Message):
        """The user requests an action on a block, or on the entry if the block is None."""

        action: Action
        at: BlockStop

    @dataclass
    class CursorMoved(Message):
        """The block cursor is `at` a block, or was left."""

        at: BlockStop | None

    @dataclass
    class LinkClicked(Message):
        """The user clicked on an address, which is safe to show and to open."""

        address: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._cursor: tuple[Entry, str | None] | None = None
        self._came_from: Widget | None = None
        self.has_vim_keys = False
        self._query = ""
        self._current: tuple[Entry, int] | None = None
        self._spans: dict[Entry, tuple[list[RenderedLine], list[list[Span]]]] = {}

    def load(self, entries: Iterable[Entry], at: str | None = None) -> None:
        """See `TranscriptView`; the block cursor stays on its message if that is still present."""
        here = self._cursor
        super().load(entries, at)
        self._current = None
        self._spans.clear()
        if here is None:
            return
        same = self.find_entry(here[0].id)
        if same is None:
            self.leave_blocks()
        else:
            self._cursor = (same, here[1])

    # The block cursor

    @property
    def cursor(self) -> BlockStop | None:
        """Return the stop of the block cursor, None without one."""
        if self._cursor is None or self._cursor[0] not in self.entries:
            return None
        entry, key = self._cursor
        found = self._stops(entry)
        return next((stop for stop in found if stop.key == key), found[0] if found else None)

    def walk(self, step: int) -> None:
        """Move the block cursor up (-1) or down (1); below the last block it is left."""
        here = self.cursor
        target = self._first_stop(step) if here is None else self._next_stop(here, step)
        if target is not None:
            self._set_cursor(target)
        elif step > 0 and here is not None:
            self.leave_blocks()
            self.follow()

    def walk_to(self, end: int) -> None:
        """Move the block cursor to the first block (-1) or the last (1)."""
        for entry in self.entries if end < 0 else reversed(self.entries):
            if found := self._stops(entry):
                self._set_cursor(found[0 if end < 0 else -1])
                return

    def leave_blocks(self) -> bool:
        """Hide the block cursor; return whether it was shown."""
        if self._cursor is None:
            return False
        self._cursor = None
        came_from, self._came_from = self._came_from, None
        if self.has_focus:
            self.screen.set_focus(came_from)
        self.can_focus = False
        self.post_message(self.CursorMoved(None))
        self.redraw()
        return True

    def fold_at(self, stop: BlockStop) -> bool:
        """Fold or unfold a block, or all blocks of an entry; return whether anything can be
        folded.
        """
        entry, block = stop.entry, stop.block
        blocks = [block] if block is not None else [s.block for s in self._stops(entry)]
        foldable = [part for part in blocks if part is not None and part.folded is not None]
        if not foldable:
            return False
        folded = not all(part.folded for part in foldable)
        for part in foldable:
            entry.fold(part.key, folded)
        self.update_entry(entry)
        if self._cursor is not None and (here := self.cursor) is not None:
            self.show_lines(entry, here.first, min(here.last, here.first + self.size.height - 1))
        self.redraw()
        return True

    def _stops(self, entry: Entry) -> list[BlockStop]:
        return [] if self._options is None else stops(entry, self._rendered(entry, self._options))

    def _first_stop(self, step: int) -> BlockStop | None:
        """Return the last visible block when moving up, the first when moving down."""
        if self._options is None or not self._layout_map.total:
            return None
        top = self.scroll_offset.y
        end = min(top + self.size.height, self._layout_map.total)
        index, _ = self._layout_map.locate(end - 1 if step < 0 else top)
        while 0 <= index < len(self.entries):
            at = self._layout_map.top(index)
            found = self._stops(self.entries[index])
            seen = [stop for stop in found if top <= at + stop.last and at + stop.first < end]
            if seen:
                return seen[-1 if step < 0 else 0]
            index += step
        return None

    def _next_stop(self, here: BlockStop, step: int) -> BlockStop | None:
        around = self._stops(here.entry)
        place = next(i for i, stop in enumerate(around) if stop.key == here.key) + step
        if 0 <= place < len(around):
            return around[place]
        index = self._index(here.entry) + step
        while 0 <= index < len(self.entries):
            found = self._stops(self.entries[index])
            if found:
                return found[-1] if step < 0 else found[0]
            index += step
        return None

    def _set_cursor(self, stop: BlockStop) -> None:
        self._cursor = (stop.entry, stop.key)
        if not self.has_focus:
            self._came_from = self.screen.focused
            self.can_focus = True
            self.focus(scroll_visible=False)
        last = min(stop.last, stop.first + max(0, self.size.height - 1))
        self.show_lines(stop.entry, stop.first, last)
        self.post_message(self.CursorMoved(stop))
        self.redraw()

    def on_key(self, event: events.Key) -> None:
        """Run the action of the key on the block under the cursor; pass other text to the
        composer.
        """
        here = self.cursor
        if here is None:
            return
        if event.key in KEYS:
            self.post_message(self.BlockAction(KEYS[event.key], here))
        elif event.key in ("up", "down"):
            self.walk(-1 if event.key == "up" else 1)
        elif self.has_vim_keys and event.character in ("j", "k"):
            self.walk(-1 if event.character == "k" else 1)
        elif self.has_vim_keys and event.character in ("g", "G"):
            self.walk_to(-1 if event.character == "g" else 1)
        elif event.key == "escape":
            self.leave_blocks()
        elif event.is_printable:
            writer = self._came_from
            self.leave_blocks()
            if writer is not None:
                writer.post_message(events.Key(event.key, event.character))
        else:
            return
        event.prevent_default()
        event.stop()

    def on_blur(self) -> None:
        """Hide the cursor: another widget has the focus, in which its keys do something else."""
        # No widget has the focus while the terminal is in the background.
        if self.screen.focused is not None:
            self.leave_blocks()

    # The mouse

    def on_click(self, event: events.Click) -> None:
        """Fold, copy or open the clicked part; two clicks select a word, three a line."""
        if isinstance(event.widget, ScrollBar):
            return
        event.prevent_default()
        event.stop()
        y = event.y + self.scroll_offset.y
        found = self._line_at(y)
        if found is None or event.button != 1:
            return
        entry, _, line = found
        x = _character(line, event.x - self.margin)
        if event.chain > 1:
            self._select_around(line, x, y, whole=event.chain > 2)
        elif self.text_selection is not None:
            return
        elif (address := _link_at(line, x)) is not None:
            self.post_message(self.LinkClicked(address))
        elif line.block is not None and line.handle is not None:
            stop = next(s for s in self._stops(entry) if s.key == line.block.key)
            if line.handle == "fold":
                self.fold_at(stop)
            else:
                self.post_message(self.BlockAction("copy", stop))

    def _select_around(self, line: RenderedLine, x: int, y: int, *, whole: bool) -> None:
        text = line.text
        span = (line.indent, len(text.rstrip()))
        if not whole:
            words = (word.span() for word in WORD.finditer(text))
            span = next((word for word in words if word[0] <= x < word[1]), None)
        if span is not None:
            self.screen.selections = {self: Selection(Offset(span[0], y), Offset(span[1], y))}

    # Finding

    def mark(self, query: str, current: tuple[Entry, int] | None = None) -> None:
        """Mark all hits of a lower-case query, and one hit more than the others."""
        self._query = query
        self._current = current
        self._spans.clear()
        self.redraw()

    def show_hit(self, entry: Entry, number: int) -> None:
        """Scroll to a hit of an entry."""
        if self._options is None:
            return
        hits = self._hits(entry)
        line = hits[min(number, len(hits) - 1)][0][0] if hits else 0
        self.show_lines(entry, line, line)

    def _hits(self, entry: Entry) -> list[list[Span]]:
        lines = [] if self._options is None else self._rendered(entry, self._options)
        kept = self._spans.get(entry)
        if kept is None or kept[0] is not lines:
            if len(self._spans) > 100:
                self._spans.clear()
            kept = self._spans[entry] = (lines, hit_spans(lines, self._query))
        return kept[1]

    # Drawing

    def _decorated(
        self, entry: Entry, offset: int, line: RenderedLine, position: int
    ) -> list[Segment]:
        segments = list(line.segments)
        margin = " " * self.margin
        assert self._options is not None
        styles = self._options.styles
        if self._query:
            segments = self._with_hits(entry, offset, segments)
        selection = self.text_selection
        span = None if selection is None else selection.get_span(position)
        if span is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            segments = marked(segments, span, style)
        if self._cursor is None or self._cursor[0] is not entry:
            return [Segment(margin), *segments]
        key = self._cursor[1]
        in_entry = key is None and offset < len(entry.previous_lines) - 1
        if not in_entry and (key is None or line.block is None or line.block.key != key):
            return [Segment(margin), *segments]
        ground = styles.cursor
        over = list(Segment.apply_style(segments, ground))
        space = self._options.width - sum(segment.cell_length for segment in over)
        mark = Segment("▌", styles.cursor_mark)
        return [Segment(margin[:-1]), mark, *over, Segment(" " * max(0, space), ground)]

    def _with_hits(self, entry: Entry, offset: int, segments: list[Segment]) -> list[Segment]:
        assert self._options is not None
        styles = self._options.styles
        hits = self._hits(entry)
        current = None
        if self._current is not None and self._current[0] is entry:
            current = min(self._current[1], len(hits) - 1)
        for number, hit in enumerate(hits):
            style: Style = styles.hit_current if number == current else styles.hit
            for line, start, end in hit:
                if line == offset:
                    segments = marked(segments, (start, end), style)
        return segments

    def selection_updated(self, selection: Selection | None) -> None:
        self.redraw()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, without layout and with soft-wrapped lines joined."""
        total = self._layout_map.total
        first = 0 if selection.start is None else max(0, selection.start.y)
        last = total - 1 if selection.end is None else min(total - 1, selection.end.y)
        spans: list[tuple[RenderedLine, tuple[int, int]]] = []
        for y in range(first, last + 1):
            found, span = self._line_at(y), selection.get_span(y)
            if found is not None and span is not None:
                spans.append((found[2], span))
        return selected_text(spans), "\n"


def _character(line: RenderedLine, cell: int) -> int:
    """Return the index of the line's character at a cell."""
    used = 0
    for number, character in enumerate(line.text):
        used += cell_len(character)
        if used > cell:
            return number
    return len(line.text)


def _link_at(line: RenderedLine, x: int) -> str | None:
    for text, style, _ in line.segments:
        if x < len(text):
            return style.link if style is not None else None
        x -= len(text)
    return None
