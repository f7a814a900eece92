"""Draws a small picture with half blocks, two pixels a cell."""

from __future__ import annotations

from base64 import b64decode

from rich.color import Color
from rich.style import Style
from rich.text import Text

from ingle.daemon.client.document_types import Thumbnail

COLUMNS, ROWS = 32, 20
"""The most pixels: 32 cells in ten lines."""


def thumbnail_lines(picture: Thumbnail) -> list[Text]:
    """Return a line for each two rows of pixels; none if the picture is not whole."""
    width, height = picture.width, picture.height
    pixels = b64decode(picture.rgb)
    if len(pixels) != 3 * width * height:
        return []

    def colour(column: int, row: int) -> Color:
        at = 3 * (row * width + column)
        return Color.from_rgb(*pixels[at : at + 3])

    lines: list[Text] = []
    for row in range(0, height, 2):
        line = Text(end="")
        for column in range(width):
            below = colour(column, row + 1) if row + 1 < height else None
            line.append("▀", Style(color=colour(column, row), bgcolor=below))
        lines.append(line)
    return lines
