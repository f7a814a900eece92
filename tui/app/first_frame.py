"""The first frame: the chat's outline, written to the terminal before Textual is imported.

Importing Textual takes a while. Until it is there, the terminal keeps what is typed; it is switched
to the mode in which nothing of that is echoed or lost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType

ALTERNATE_SCREEN = "\x1b[?1049h"
MAIN_SCREEN = "\x1b[?1049l"
HIDE_CURSOR = "\x1b[?25l"
SHOW_CURSOR = "\x1b[?25h"
RESET = "\x1b[0m"

SHORT = 16
COLUMN = 104
ROOMY, BROAD = 28, 120
"""In the full view the status has a second line from so many lines, below so many columns."""
PANEL = 36
"""Columns of the gauges beside the chat, in the full view from `BROAD` columns on."""


SHADES = {
    "ingle": (("#151312", 233), ("#958c80", 246), ("#e39a62", 173), ("#916442", 95)),
    "ingle-light": (("#faf6ef", 255), ("#675d52", 241), ("#9c4816", 130), ("#c28e6d", 137)),
    "ingle-contrast": (("#000000", 16), ("#cfc8be", 251), ("#ffb672", 215), ("#996d44", 137)),
    "ingle-contrast-light": (("#ffffff", 231), ("#453d36", 237), ("#7a3100", 94), ("#af8366", 138)),
}
"""Background, muted text, accent and edge of each of our themes, as in `themes.py`.

Each with the number of the nearest one of 256 colours.
"""


class FirstFrame:
    """Paints on entering; restores the terminal on leaving."""

    def __init__(self, theme: str = "ingle", *, full: bool = False) -> None:
        self._palette = colours(theme)
        self._full = full
        self._restore: Callable[[], None] = lambda: None
        self._on_screen = False

    def __enter__(self) -> FirstFrame:
        import termios

        fd = sys.stdin.fileno()
        saved = termios.tcgetattr(fd)
        self._restore = lambda: termios.tcsetattr(fd, termios.TCSADRAIN, saved)
        mode = termios.tcgetattr(fd)
        # No echo, keys at once, and enter as the carriage return that Textual expects; ctrl+c
        # still interrupts until Textual reads it as a key.
        mode[0] &= ~termios.ICRNL
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        mode[6][termios.VMIN] = 1
        mode[6][termios.VTIME] = 0
        termios.tcsetattr(fd, termios.TCSANOW, mode)
        self._on_screen = True
        try:
            size = os.get_terminal_size(sys.stderr.fileno())
            drawn = frame(size.columns, size.lines, self._palette, full=self._full)
            _write(ALTERNATE_SCREEN + HIDE_CURSOR + drawn)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def hand_over(self) -> None:
        """Leave the screen to Textual, which also restores it."""
        self._on_screen = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._on_screen:
            _write(RESET + MAIN_SCREEN + SHOW_CURSOR)
        self._restore()


def _write(text: str) -> None:
    os.write(sys.stderr.fileno(), text.encode())


def colours(theme: str) -> tuple[str, str, str]:
    """The sequences for text, accent and edge in colours that the terminal supports."""
    shades = SHADES.get(theme)
    if shades is None or "NO_COLOR" in os.environ or "TEXTUAL_THEME" in os.environ:
        return RESET, "\x1b[1m", RESET
    exact = os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    ground, text, accent, edge = (
        "2;{};{};{}".format(*bytes.fromhex(colour[1:])) if exact else f"5;{number}"
        for colour, number in shades
    )
    return f"\x1b[0;48;{ground};38;{text}m", f"\x1b[1;38;{accent}m", f"\x1b[22;38;{edge}m"


def frame(columns: int, lines: int, palette: tuple[str, str, str], *, full: bool = False) -> str:
    """The sequences that draw the outline, at the same places as the stylesheet."""
    text, accent, edge = palette
    parts = [text, "\x1b[2J"]
    if lines < SHORT:
        parts.append(f"\x1b[{lines - 1};2H{text}Message")
    else:
        beside = PANEL if full and columns >= BROAD else 0
        width = min(columns - beside, COLUMN)
        left = (columns - beside - width) // 2 + 1
        lines -= 1 if full and lines >= ROOMY and columns < BROAD else 0
        parts.append(f"\x1b[1;1H {accent}ingle{text}")
        for row, line in (
            (lines - 3, "╭" + "─" * (width - 2) + "╮"),
            (lines - 2, "│" + " " * (width - 2) + "│"),
            (lines - 1, "╰" + "─" * (width - 2) + "╯"),
        ):
            parts.append(f"\x1b[{row};{left}H{edge}{line}")
        parts.append(f"\x1b[{lines - 2};{left + 2}H{text}Message")
    parts.append(f"\x1b[{lines};1H{text} ○ starting")
    return "".join(parts)
