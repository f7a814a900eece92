"""Renders tables as columns, or as one field per line if space is short."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text

from ..lines import RenderedLine, TranscriptStyles, joined, wrap

MIN_COLUMN = 6
GAP = " │ "


def render_table(
    node: SyntaxTreeNode,
    width: int,
    styles: TranscriptStyles,
    inline: Callable[[SyntaxTreeNode], Text],
    wrapped: Callable[[Text, int], list[RenderedLine]],
) -> list[RenderedLine]:
    """Return the table's lines; `inline` returns the styled text of a cell, `wrapped` its lines.

    The parser gives every row as many cells as the header has.
    """
    rows = [
        [inline(cell) for cell in row.children]
        for section in node.children
        for row in section.children
    ]
    rows[0] = [cell.copy() for cell in rows[0]]
    for cell in rows[0]:
        cell.stylize(styles.strong)
    columns = len(rows[0])
    room = width - (columns - 1) * len(GAP)
    if room < columns * MIN_COLUMN:
        return _as_fields(rows, width)
    natural = [
        max(cell_len(line) for cell in column for line in cell.plain.split("\n"))
        for column in zip(*rows, strict=True)
    ]
    widths = column_widths(natural, room)
    head = node.children[0].children[0].children
    aligns = [str(cell.attrs.get("style", "")).removeprefix("text-align:") for cell in head]
    rule = RenderedLine((Segment("─┼─".join("─" * column for column in widths), styles.rule),))
    lines: list[RenderedLine] = []
    for number, row in enumerate(rows):
        lines += [rule] if number == 1 else []
        cells = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines += _row(cells, widths, aligns, styles)
    return lines if len(rows) > 1 else [*lines, rule]


def column_widths(natural: list[int], room: int) -> list[int]:
    """Return the width of each column: its natural width, the widest reduced if `room` is short."""
    widths = [max(1, width) for width in natural]
    excess = sum(widths) - room
    while excess > 0:
        widest = max(widths)
        runner_up = max((width for width in widths if width < widest), default=MIN_COLUMN)
        givers = [index for index, width in enumerate(widths) if width == widest]
        step = max(1, min(widest - runner_up, -(-excess // len(givers))))
        for index in givers:
            widths[index] -= step
        excess = sum(widths) - room
    return widths


def _row(
    cells: list[list[RenderedLine]], widths: list[int], aligns: list[str], styles: TranscriptStyles
) -> list[RenderedLine]:
    """Return the lines of a row from those of its cells."""
    lines: list[RenderedLine] = []
    for parts in zip_longest(*cells):
        segments: list[Segment] = []
        for part, width, align in zip(parts, widths, aligns, strict=True):
            if segments:
                segments.append(Segment(GAP, styles.rule))
            segments += _aligned(part, width, align)
        lines.append(RenderedLine(tuple(segments)))
    return lines


def _aligned(line: RenderedLine | None, width: int, align: str) -> list[Segment]:
    segments = () if line is None else line.segments
    space = max(0, width - sum(segment.cell_length for segment in segments))
    before = space if align == "right" else space // 2 if align == "center" else 0
    padded = [Segment(" " * before), *segments, Segment(" " * (space - before))]
    return [segment for segment in padded if segment.text]


def _as_fields(rows: list[list[Text]], width: int) -> list[RenderedLine]:
    header, *body = rows
    records = [
        [
            line
            for name, cell in zip(header, row, strict=True)
            for line in wrap(Text.assemble(name, ": ", cell, end=""), width)
        ]
        for row in body
    ]
    return joined(records) or [line for name in header for line in wrap(name, width)]
