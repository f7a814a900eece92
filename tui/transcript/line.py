"""`Line`: one rendered line of the transcript."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style


@dataclass(frozen=True, slots=True)
class Line:
    """Segments, and whether the line continues the one above after a soft wrap.

    `indent` cells at its start are layout rather than text, so copying leaves them out.
    """

    segments: tuple[Segment, ...] = ()
    soft: bool = False
    indent: int = 0

    @property
    def text(self) -> str:
        """The characters on the line."""
        return "".join(segment.text for segment in self.segments)

    def prefixed(self, prefix: str, style: Style | None = None, *, layout: bool = True) -> Line:
        """The line behind `prefix`, which counts as layout unless said otherwise."""
        indent = self.indent + len(prefix) if layout else 0
        return Line((Segment(prefix, style), *self.segments), self.soft, indent)


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
