"""The prompt of `ingle run`: the words of the command line, then piped input."""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence
from pathlib import Path

from ...terminal.terminal_output import print_status

PATIENCE = 2.0
"""Seconds of silence before the wait for standard input is announced."""


def split_words(words: Sequence[str]) -> tuple[str | None, str]:
    """Return (model, prompt); the first word is the model unless it is clearly a sentence."""
    if not words:
        return None, ""
    first, *rest = words
    if any(c.isspace() for c in first) and not Path(first).exists():
        return None, " ".join(words)
    return first, " ".join(rest)


def read_prompt(words: str) -> str:
    """Return the words, an empty line, and all of standard input unless that is a terminal."""
    parts = [as_text(words), _read_piped()]
    return "\n\n".join(part for part in parts if part.strip())


def as_text(argument: str) -> str:
    """Return the argument with replacement characters for invalid bytes, which JSON cannot
    represent.
    """
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _read_piped() -> str:
    stdin = sys.stdin
    if stdin is None or stdin.closed or stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # None where it was closed
        return ""
    if sys.platform != "win32" and not select.select([stdin], [], [], PATIENCE)[0]:
        # A pipe that is never closed would otherwise look like a command that hangs.
        print_status("Waiting for the rest of the prompt on standard input.")
    return stdin.buffer.read().decode("utf-8", "replace").strip("\n")
