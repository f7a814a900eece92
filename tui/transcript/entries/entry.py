"""Base classes of transcript entries, which render themselves to lines."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import ClassVar, TypedDict

import msgspec
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from ...text.terminal_safe_text import clean_line
from ..lines import EntryBlock, RenderedLine, TranscriptStyles, single_line

INDENT = "  "


class RenderOptions(msgspec.Struct, frozen=True):
    """Options of rendering: the styles, the width in cells, and display settings."""

    styles: TranscriptStyles
    width: int
    shows_times: bool = True
    folds_reasoning: bool = True


class Entry(ABC):
    """A transcript entry; its lines are cached until its content or the options change.

    `id` is that of its message or compaction, "" without one.
    """

    walkable: ClassVar[bool] = True
    """Whether the block cursor stops at the entry as a whole."""

    def __init__(self, id: str = "") -> None:  # noqa: A002
        self.id = id
        self._options: RenderOptions | None = None
        self._rendered_with: RenderOptions | None = None
        self.previous_lines: list[RenderedLine] = []
        """The lines of the last rendering, perhaps before a change."""
        self._folds: dict[str, bool] = {}

    def lines(self, options: RenderOptions) -> list[RenderedLine]:
        """Return the rendered lines, a blank one last."""
        if options is not self._options:
            self.previous_lines = self._render(options)
            self._options = self._rendered_with = options
        return self.previous_lines

    def rendered_lines(self, options: RenderOptions) -> list[RenderedLine]:
        """Return the lines of the last rendering, even if the content has changed since."""
        return self.previous_lines if options is self._rendered_with else self.lines(options)

    def forget_lines(self) -> None:
        """Free the cached lines; they are rendered again on demand."""
        self._options = self._rendered_with = None
        self.previous_lines = []

    def estimated_height(self, width: int) -> int:
        """Estimate the number of lines without rendering."""
        text = self._source()
        return 3 + text.count("\n") + len(text) // max(8, width - 4)

    def is_folded(self, key: str, by_default: bool) -> bool:
        """Return whether a block of the entry is folded."""
        return self._folds.get(key, by_default)

    @property
    def has_foldable(self) -> bool:
        """Return whether any block of the last rendering can be folded."""
        blocks = (line.block for line in self.previous_lines)
        return any(block is not None and block.folded is not None for block in blocks)

    def copy_folds(self, other: Entry) -> None:
        """Copy the fold state of `other`, which shows the same message."""
        if other is not self and other._folds:
            self._folds = dict(other._folds)
            self._changed()

    def fold(self, key: str, folded: bool) -> None:
        """Fold or unfold a block."""
        self._folds[key] = folded
        self._changed()

    @property
    @abstractmethod
    def text(self) -> str:
        """Return the text to copy."""

    def block_text(self, block: EntryBlock) -> str:
        """Return the text to copy for a block of the entry."""
        return block.text

    def _source(self) -> str:
        """Return text of about the displayed length, without cleaning or rendering it."""
        return self.text

    @abstractmethod
    def _render(self, options: RenderOptions) -> list[RenderedLine]: ...

    def _changed(self) -> None:
        self._options = None


MIN_NOTE = 12
"""Cells below which a note is omitted rather than cut."""


class MessageFields(TypedDict, total=False):
    """Fields of a message's header; `created` is in Unix seconds.

    `place` is the position among its siblings and their number, counted from one. A `pinned`
    message is kept verbatim in every compaction.
    """

    id: str
    created: float | None
    place: tuple[int, int] | None
    pinned: bool


class MessageEntry(Entry):
    """A message with its header; `note` is a text beside the name, such as the speed."""

    def __init__(self, note: str, fields: MessageFields) -> None:
        super().__init__(fields.get("id", ""))
        self._note = note
        self._created = fields.get("created")
        self._place = fields.get("place")
        self.pinned = fields.get("pinned", False)

    def annotate(self, note: str) -> None:
        """Set the note beside the name."""
        if note != self._note:
            self._note = note
            self._changed()

    def set_pinned(self, pinned: bool) -> None:
        """Mark it as pinned or not."""
        if pinned != self.pinned:
            self.pinned = pinned
            self._changed()

    @abstractmethod
    def _name_and_style(self, options: RenderOptions) -> tuple[str, Style]:
        """Return the name in the header and its style."""

    def _header(self, options: RenderOptions) -> list[RenderedLine]:
        """Return the header: name and facts; if space is short, the hint is dropped first, then the
        end of the note.
        """
        name, style = self._name_and_style(options)
        head = Text.assemble(("▌ ", style), (name, style), end="")
        room = options.width - head.cell_len
        if room < 8:
            return [_layout_line(head, options.width)]
        timed = self._created and options.shows_times
        when = time.strftime("%H:%M", time.localtime(self._created)) if timed else ""
        pin = "◆ pinned" if self.pinned else ""
        place = "" if self._place is None else f"{self._place[0]}/{self._place[1]}"
        hinted = f"{place} ‹alt+←→›" if self._place is not None else ""
        note = clean_line(self._note)
        for shown in (hinted, place):
            facts = [part for part in (when, note, shown, pin) if part]
            if cell_len("  " + " · ".join(facts)) <= room:
                break
        else:
            facts = _cut_note([when, note, place, pin], room)
        if facts:
            head.append("  " + " · ".join(facts), options.styles.muted)
        return [_layout_line(head, options.width)]


def _layout_line(text: Text, width: int) -> RenderedLine:
    """Return a line that is not copied with the messages around it."""
    line = single_line(text, width)
    return msgspec.structs.replace(line, indent=len(line.text))


def _cut_note(facts: list[str], room: int) -> list[str]:
    when, note, *others = facts
    rest = [part for part in (when, *others) if part]
    space = room - 2 - cell_len(" · ".join(rest)) - (3 if rest else 0)
    if space < MIN_NOTE:
        return rest
    cut = Text(note, end="")
    cut.truncate(space, overflow="ellipsis")
    return [part for part in (when, cut.plain, *others) if part]
