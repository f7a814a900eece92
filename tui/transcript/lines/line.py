"""`Line`: one rendered line of the transcript."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.segment import Segment
from rich.style import Style

if TYPE_CHECKING:
    from .block import Block


Handle = Literal["fold", "copy"]


@dataclass(frozen=True, slots=True)
class Line:
    """Segments, and whether the line continues the one above after a soft wrap.

    `indent` cells at its start are layout rather than text, so copying leaves them out. `block` is
    the part of its entry that the line belongs to, None for the entry's own words; `handle` is
    what a click on the line does to it.
    """

    segments: tuple[Segment, ...] = ()
    soft: bool = False
    indent: int = 0
    block: Block | None = None
    handle: Handle | None = None

    @property
    def text(self) -> str:
        """The characters on the line."""
        return "".join(segment.text for segment in self.segments)

    def prefixed(self, prefix: str, style: Style | None = None, *, layout: bool = True) -> Line:
        """The line behind `prefix`, which counts as layout unless said otherwise."""
        indent = self.indent + len(prefix) if layout else 0
        segments = (Segment(prefix, style), *self.segments)
        return Line(segments, self.soft, indent, self.block, self.handle)

    def within(self, block: Block, *, handle: Handle | None = None) -> Line:
        """The line as part of `block`."""
        return Line(self.segments, self.soft, self.indent, block, handle)


BLANK = Line()


def joined(blocks: Iterable[list[Line]]) -> list[Line]:
    """The blocks with one blank line between them."""
    lines: list[Line] = []
    for block in blocks:
        if not block:
            continue
        if lines:
            lines.append(BLANK)
        lines.extend(block)
    return lines
