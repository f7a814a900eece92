"""`Entry`: something in the transcript, which renders itself to lines."""

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
    """What rendering depends on: the styles, the width in cells, and what the reader set."""

    styles: TranscriptStyles
    width: int
    shows_times: bool = True
    folds_thoughts: bool = True


class Entry(ABC):
    """Something in the transcript; its lines are kept until its content or the look changes.

    `id` names the message or compaction it shows, "" where there is none.
    """

    walkable: ClassVar[bool] = True
    """Whether the block cursor stops at the entry as a whole."""

    def __init__(self, id: str = "") -> None:  # noqa: A002
        self.id = id
        self._look: RenderOptions | None = None
        self._lines: list[RenderedLine] = []
        self._folds: dict[str, bool] | None = None

    def lines(self, look: RenderOptions) -> list[RenderedLine]:
        """The rendered lines, a blank one last."""
        if look is not self._look:
            self._lines = self._render(look)
            self._look = look
        return self._lines

    @property
    def previous_lines(self) -> list[RenderedLine]:
        """The lines as they were rendered last, maybe before a change."""
        return self._lines

    def forget_lines(self) -> None:
        """Give the memory of the lines back; they are rendered again when they are needed."""
        self._look = None
        self._lines = []

    def estimated_height(self, width: int) -> int:
        """About how many lines there will be, without rendering."""
        text = self._source()
        return 3 + text.count("\n") + len(text) // max(8, width - 4)

    def is_folded(self, key: str, by_default: bool) -> bool:
        """Whether a block of the entry is folded."""
        return by_default if self._folds is None else self._folds.get(key, by_default)

    @property
    def has_foldable(self) -> bool:
        """Whether any block of it, as rendered last, can be folded."""
        return any(line.block is not None and line.block.folded is not None for line in self._lines)

    @property
    def was_folded(self) -> bool:
        """Whether the reader folded or unfolded anything in it."""
        return self._folds is not None

    def take_folds(self, other: Entry) -> None:
        """Have folded what is in `other`, which shows the same message."""
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
        """What a reader would copy."""

    def block_text(self, block: EntryBlock) -> str:
        """What copying a block of the entry gives."""
        return block.text

    def _source(self) -> str:
        """Something as long as what is shown, without work."""
        return self.text

    @abstractmethod
    def _render(self, look: RenderOptions) -> list[RenderedLine]: ...

    def _changed(self) -> None:
        self._look = None
