"""Growing plain text, of which only the last line is wrapped again."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text

from ..lines.block import EntryBlock
from ..lines.line import RenderedLine
from ..lines.line_wrapping import wrap


class PlainStream:
    """Text and its lines at one width and in one style, with a prefix, as part of a block."""

    def __init__(self, width: int, style: Style, prefix: str, block: EntryBlock) -> None:
        self._width = width
        self._style = style
        self._prefix = prefix
        self._block = block
        self._settled: list[RenderedLine] = []
        self._tail = ""
        self._tail_lines: list[RenderedLine] = []

    @property
    def lines(self) -> list[RenderedLine]:
        """Return all lines as of the last `append`."""
        return [*self._settled, *self._tail_lines]

    def append(self, text: str) -> None:
        """Add clean text."""
        whole, newline, self._tail = (self._tail + text).rpartition("\n")
        if newline:
            self._settled += self._wrapped(whole)
        self._tail_lines = self._wrapped(self._tail) if self._tail else []

    def _wrapped(self, text: str) -> list[RenderedLine]:
        lines = wrap(Text(text, self._style, end=""), self._width)
        return [line.prefixed(self._prefix, self._style).within(self._block) for line in lines]
