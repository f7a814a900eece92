"""`CompactionBar`: a line that suggests, announces and reports compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ..text import number_format

if TYPE_CHECKING:
    from ..compaction.compactor import CompactionProgress


class BarText(msgspec.Struct, frozen=True):
    """A line: a mark in the colour `style`, words, and the keys that matter, also in brief."""

    words: str
    keys: str
    brief_keys: str
    mark: str = "▲"
    style: str = "$secondary"


class CompactionBar(Widget):
    """One line above the composer; hidden without a text."""

    DEFAULT_CSS = "CompactionBar { height: 1; width: 100%; padding: 0 2; }"

    said: reactive[BarText | None] = reactive[BarText | None](None)

    def watch_said(self, said: BarText | None) -> None:
        """Show only while there is a value."""
        self.display = said is not None

    def render(self) -> RenderResult:
        said = self.said
        if said is None:
            return Content("")
        words = Content.assemble((f"{said.mark} ", said.style), said.words)
        long = words.cell_length + len(said.keys) + 3 <= self.size.width
        keys = Content(said.keys if long else said.brief_keys).stylize("$muted")
        room = self.size.width - keys.cell_length - 3
        if room < words.cell_length and room < 24:
            return words.truncate(self.size.width, ellipsis=True)
        return Content.assemble(words.truncate(room, ellipsis=True), "   ", keys)


def suggestion_text(share: float) -> BarText:
    """The suggestion to compact; `share` of the context is full."""
    words = f"{number_format.percent(share)} of the context is full"
    return BarText(words, "F6 compacts · esc hides this", "F6 compacts · esc")


def notice_text(share: float, seconds: int) -> BarText:
    """The notice of an automatic compaction."""
    words = f"{number_format.percent(share)} of the context is full: compacting in {seconds} s"
    return BarText(words, "esc postpones it", "esc: later", style="$warning")


def progress_text(progress: CompactionProgress) -> BarText:
    """The progress of a compaction."""
    passed = f" · {progress.seconds:.0f} s" if progress.seconds >= 1 else ""
    keys, brief = "esc cancels", "esc stops"
    words = f"Compacting{progress.step}{passed}"
    return BarText(words, keys, brief, mark="◆", style="$primary")
