"""Chooses the initial theme before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping

DARK = "ingle"
LIGHT = "ingle-light"
SIXTEEN = "ingle-16"
LIGHT_GROUNDS = {"7", "9", "10", "11", "12", "13", "14", "15"}


def choose_theme(remembered: str, environ: Mapping[str, str]) -> str:
    """Return the saved theme, else one that fits the terminal's colours and background.

    Terminals announce their background in `COLORFGBG`. Querying one (OSC 11) would delay the first
    frame, and its answer would mix with typed keys.
    """
    if remembered:
        return remembered
    if not has_many_colours(environ):
        return SIXTEEN
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if ground in LIGHT_GROUNDS else DARK


def has_many_colours(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal announces 256 colours or more."""
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return True
    term = environ.get("TERM", "")
    return term.endswith(("256color", "kitty", "direct", "ghostty")) or not term
