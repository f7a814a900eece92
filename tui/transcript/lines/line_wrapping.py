"""Wraps styled text to lines of a given width."""

from __future__ import annotations

from functools import lru_cache

from rich.console import Console
from rich.text import Text

from .line import BLANK, RenderedLine


@lru_cache(1)
def _console() -> Console:
    # Only its measuring is used; nothing is ever printed through it.
    return Console(width=80, force_terminal=True, legacy_windows=False, _environ={})


def wrap(text: Text, width: int) -> list[RenderedLine]:
    """Wrap text to lines of at most `width` cells; longer words are cut."""
    console = _console()
    lines: list[RenderedLine] = []
    for paragraph in text.split("\n", allow_blank=True):
        if not paragraph.plain:
            lines.append(BLANK)
            continue
        if paragraph.style:
            # Rendering omits the style of a text without spans.
            paragraph.stylize_before(paragraph.style)
        wrapped = paragraph.wrap(console, max(1, width), overflow="fold", tab_size=4)
        for index, part in enumerate(wrapped):
            lines.append(RenderedLine(tuple(part.render(console)), soft=index > 0))
    return lines


def wrap_plain(plain: str, width: int) -> list[RenderedLine]:
    """Wrap plain text to lines of at most `width` cells."""
    return wrap(Text(plain, end=""), width)
