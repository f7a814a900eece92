"""Extracts the text of a selection over rendered lines."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style

from ..lines.line import RenderedLine


def selected_text(spans: Iterable[tuple[RenderedLine, tuple[int, int]]]) -> str:
    """Return the text in spans of characters, without layout and with soft-wrapped lines joined."""
    parts: list[str] = []
    for line, (first, last) in spans:
        start, end = max(line.indent, first), None if last == -1 else last
        text = line.text[start:end].rstrip()
        joint = " " if line.soft else "\n"
        parts.append(f"{joint}{text}" if parts else text)
    return "".join(parts)


def marked(segments: Iterable[Segment], span: tuple[int, int], style: Style) -> list[Segment]:
    """Return the segments with `style` over the characters in `span`; -1 stands for the end."""
    start, end = span
    result: list[Segment] = []
    x = 0
    for text, own, _ in segments:
        length = len(text)
        cuts = (
            max(0, min(length, start - x)),
            length if end == -1 else max(0, min(length, end - x)),
        )
        pieces = ((text[: cuts[0]], own), (text[cuts[0] : cuts[1]], None), (text[cuts[1] :], own))
        for index, (piece, piece_style) in enumerate(pieces):
            if piece:
                over = (own + style if own else style) if index == 1 else piece_style
                result.append(Segment(piece, over))
        x += length
    return result
