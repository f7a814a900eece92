"""Terminal colours, if the output supports them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal

Colour = Literal["red", "green", "yellow", "blue", "cyan"]
_CODES: dict[Colour, int] = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}


class TerminalColors:
    """Highlights single marks and headings in the terminal's own palette.

    Text keeps the default colour, which is readable on light and dark backgrounds.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    @classmethod
    def for_output(cls, environ: Mapping[str, str] | None = None) -> TerminalColors:
        """Return colours for standard output: none if a program reads it, or `NO_COLOR` is set."""
        env = os.environ if environ is None else environ
        plain = env.get("NO_COLOR") or env.get("TERM") == "dumb"
        return cls(enabled=not plain and sys.stdout.isatty())

    def bold(self, text: str) -> str:
        """Return the text in bold."""
        return self._wrapped(text, 1)

    def colour(self, text: str, colour: Colour) -> str:
        """Return the text in a colour."""
        return self._wrapped(text, _CODES[colour])

    def _wrapped(self, text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._enabled and text else text
