"""One rendered line of the transcript."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.segment import Segment
from rich.style import Style

if TYPE_CHECKING:
    from .block import EntryBlock


Handle = Literal["fold", "copy"]


@dataclass(frozen=True, slots=True)
class RenderedLine:
    """Segments, and whether the line continues the previous one after a soft wrap.

    `indent` cells at its start are layout rather than text, so copying omits them. `block` is the
    part of its entry that the line belongs to, None for the entry's own text; `handle` is the
    action of a click on the line.
    """

    segments: tuple[Segment, ...] = ()
    soft: bool = False
    indent: int = 0
    block: EntryBlock | None = None
    handle: Handle | None = None

    @property
    def text(self) -> str:
        """Return the characters on the line."""
        return "".join(segment.text for segment in self.segments)

    def prefixed(
        self, prefix: str, style: Style | None = None, *, layout: bool = True
    ) -> RenderedLine:
        """Return the line with `prefix`, which counts as layout by default."""
        indent = self.indent + len(prefix) if layout else 0
        segments = (Segment(prefix, style), *self.segments)
        return RenderedLine(segments, self.soft, indent, self.block, self.handle)

    def within(self, block: EntryBlock, *, handle: Handle | None = None) -> RenderedLine:
        """Return the line as part of `block`."""
        return RenderedLine(self.segments, self.soft, self.indent, block, handle)


BLANK = RenderedLine()


def joined(blocks: Iterable[list[RenderedLine]]) -> list[RenderedLine]:
    """Join blocks with one blank line between them."""
    lines: list[RenderedLine] = []
    for block in blocks:
        if not block:
            continue
        if lines:
            lines.append(BLANK)
        lines.extend(block)
    return lines
