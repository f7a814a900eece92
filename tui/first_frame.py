"""The first frame: the chat's outline, written to the terminal before Textual is imported.

Importing Textual takes longer than people like to wait for a sign of life. Until it is there, the
terminal keeps what is typed; it is switched to the mode in which nothing of that is echoed or lost.
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


class FirstFrame:
    """Paints on entering; on leaving gives the terminal back as it was found."""

    def __init__(self) -> None:
        self._restore: Callable[[], None] = _nothing
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
            self._paint()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    @staticmethod
    def _paint() -> None:
        size = os.get_terminal_size(sys.stderr.fileno())
        _write(ALTERNATE_SCREEN + HIDE_CURSOR + frame(size.columns, size.lines, colours()))

    def hand_over(self) -> None:
        """Textual owns the screen from now on, and leaves it by itself."""
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


def _nothing() -> None:
    pass


def _write(text: str) -> None:
    os.write(sys.stderr.fileno(), text.encode())


def colours() -> tuple[str, str, str]:
    """Sequences for text on the ground, the accent and the edge, as the terminal can show them."""
    if "NO_COLOR" in os.environ or "TEXTUAL_THEME" in os.environ:
        return RESET, "\x1b[1m", RESET
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        ground = "\x1b[0;48;2;21;19;18m"
        return (
            ground + "\x1b[38;2;149;140;128m",
            "\x1b[1;38;2;227;154;98m",
            "\x1b[22;38;2;145;100;66m",
        )
    return "\x1b[0;48;5;233;38;5;246m", "\x1b[1;38;5;173m", "\x1b[22;38;5;95m"


def frame(columns: int, lines: int, palette: tuple[str, str, str]) -> str:
    """The sequences that draw the outline; the same places as in the stylesheet."""
    text, accent, edge = palette
    parts = [text, "\x1b[2J"]
    if lines < SHORT:
        parts.append(f"\x1b[{lines - 1};2H{text}Message")
    else:
        width = min(columns, COLUMN)
        left = (columns - width) // 2 + 1
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
