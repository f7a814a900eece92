"""Assembles the gauges' signs, in ASCII if the terminal supports nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable

from textual.content import Content

from ...gauges.gauge_glyphs import ascii_only, plain

ASCII = ascii_only(os.environ)

StyledText = str | tuple[str, str]
"""Text, or text and its style."""


def signs(pieces: Iterable[StyledText], *, ascii: bool = ASCII) -> Content:  # noqa: A002
    """The pieces as one line; with `ascii`, the gauges' signs are replaced by ASCII characters."""
    if not ascii:
        return Content.assemble(*pieces)
    return Content.assemble(
        *(plain(p) if isinstance(p, str) else (plain(p[0]), p[1]) for p in pieces)
    )


def columns(left: Content, right: Content, width: int) -> Content:
    """`left` and `right` at the ends of a line of `width` cells; `left` is cut."""
    room = max(0, width - right.cell_length - 1)
    left = left.truncate(room, ellipsis=True)
    gap = " " * max(1, width - left.cell_length - right.cell_length)
    return Content.assemble(left, gap, right).truncate(width)


def wrapped(parts: Iterable[Content], width: int, between: Content) -> list[Content]:
    """Lines of at most `width` cells, with as many parts each as fit; no part is broken."""
    lines: list[Content] = []
    for part in parts:
        longer = between.join([*lines[-1:], part])
        if lines and longer.cell_length <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def in_columns(parts: list[Content], width: int) -> list[Content]:
    """Arrange parts in one line if they fit, else in two columns."""
    gap = 3
    if sum(part.cell_length + gap for part in parts) - gap <= width:
        return [Content(" " * gap).join(parts)]
    left, right = (
        max((part.cell_length for part in side), default=0) for side in (parts[::2], parts[1::2])
    )
    half = max(left + 1, min(max(width // 2, left + 2), width - right))
    return [
        Content.assemble(
            row[0], *((" " * (half - row[0].cell_length), row[1]) if len(row) > 1 else ())
        ).truncate(width)
        for row in (parts[at : at + 2] for at in range(0, len(parts), 2))
    ]
