"""Base class of transcript entries, which render themselves to lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from ..lines.block import EntryBlock
from ..lines.line import RenderedLine
from ..lines.transcript_styles import TranscriptStyles

INDENT = "  "


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """What rendering depends on: the styles, the width in cells, and display settings."""

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
        self._lines: list[RenderedLine] = []
        self._folds: dict[str, bool] | None = None

    def lines(self, options: RenderOptions) -> list[RenderedLine]:
        """Return the rendered lines, a blank one last."""
        if options is not self._options:
            self._lines = self._render(options)
            self._options = options
        return self._lines

    @property
    def previous_lines(self) -> list[RenderedLine]:
        """Return the lines of the last rendering, perhaps before a change."""
        return self._lines

    def forget_lines(self) -> None:
        """Free the cached lines; they are rendered again on demand."""
        self._options = None
        self._lines = []

    def estimated_height(self, width: int) -> int:
        """Estimate the number of lines without rendering."""
        text = self._source()
        return 3 + text.count("\n") + len(text) // max(8, width - 4)

    def is_folded(self, key: str, by_default: bool) -> bool:
        """Return whether a block of the entry is folded."""
        return by_default if self._folds is None else self._folds.get(key, by_default)

    @property
    def has_foldable(self) -> bool:
        """Return whether any block of the last rendering can be folded."""
        return any(line.block is not None and line.block.folded is not None for line in self._lines)

    @property
    def was_folded(self) -> bool:
        """Return whether the user folded or unfolded anything in it."""
        return self._folds is not None

    def copy_folds(self, other: Entry) -> None:
        """Copy the fold state of `other`, which shows the same message."""
        if other is not self and other._folds is not None:
            self._folds = dict(other._folds)
            self._changed()

    def fold(self, key: str, folded: bool) -> None:
        """Fold or unfold a block."""
        if self._folds is None:
            self._folds = {}
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
        """Return a cheap text about as long as what is shown."""
        return self.text

    @abstractmethod
    def _render(self, options: RenderOptions) -> list[RenderedLine]: ...

    def _changed(self) -> None:
        self._options = None
