"""Base class of prompt and answer entries, with their header line."""

from __future__ import annotations

import time
from abc import abstractmethod

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from ...text.terminal_safe_text import clean
from ..lines.line import RenderedLine
from ..lines.line_wrapping import wrap
from .entry import Entry, RenderOptions

MIN_NOTE = 12
"""Cells below which a note is omitted rather than cut."""


class MessageEntry(Entry):
    """A message with its header; `created` is in Unix seconds, None if unknown."""

    def __init__(
        self,
        note: str = "",
        *,
        id: str = "",  # noqa: A002
        created: float | None = None,
        place: tuple[int, int] | None = None,
        pinned: bool = False,
    ) -> None:
        super().__init__(id)
        self._note = note
        self._created = created
        self._place = place
        self._pinned = pinned

    @property
    def pinned(self) -> bool:
        """Return whether it is kept verbatim in every compaction."""
        return self._pinned

    def annotate(self, note: str) -> None:
        """Set the note beside the name, such as the speed."""
        if note != self._note:
            self._note = note
            self._changed()

    def set_place(self, place: tuple[int, int] | None) -> None:
        """Set its position among its siblings, counted from one; None without siblings."""
        if place != self._place:
            self._place = place
            self._changed()

    def set_pinned(self, pinned: bool) -> None:
        """Mark it as pinned or not."""
        if pinned != self._pinned:
            self._pinned = pinned
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
            head.truncate(options.width, overflow="ellipsis")
            return wrap(head, options.width + 1)[:1]
        timed = self._created and options.shows_times
        when = time.strftime("%H:%M", time.localtime(self._created)) if timed else ""
        pin = "◆ pinned" if self._pinned else ""
        place = "" if self._place is None else f"{self._place[0]}/{self._place[1]}"
        hinted = f"{place} ‹alt+←→›" if self._place is not None else ""
        note = clean(self._note).replace("\n", " ")
        for shown in (hinted, place):
            facts = [part for part in (when, note, shown, pin) if part]
            if cell_len("  " + " · ".join(facts)) <= room:
                break
        else:
            facts = _cut_note([when, note, place, pin], room)
        if facts:
            head.append("  " + " · ".join(facts), options.styles.muted)
        head.truncate(options.width, overflow="ellipsis")
        return wrap(head, options.width + 1)[:1]


def _cut_note(facts: list[str], room: int) -> list[str]:
    when, note, *others = facts
    rest = [part for part in (when, *others) if part]
    space = room - 2 - cell_len(" · ".join(rest)) - (3 if rest else 0)
    if space < MIN_NOTE:
        return rest
    cut = Text(note, end="")
    cut.truncate(space, overflow="ellipsis")
    return [part for part in (when, cut.plain, *others) if part]
