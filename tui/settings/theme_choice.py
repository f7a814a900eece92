"""Which theme a chat begins with, from what is known before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping

DARK = "ingle"
LIGHT = "ingle-light"
SIXTEEN = "ingle-16"
LIGHT_GROUNDS = {"7", "9", "10", "11", "12", "13", "14", "15"}


def choose_theme(remembered: str, environ: Mapping[str, str]) -> str:
    """The theme that was chosen before, else one that fits the terminal's colours and ground.

    `COLORFGBG` is what terminals say of their ground by themselves. Asking one (OSC 11) would hold
    up the first frame, and its answer would come between the keys that are typed meanwhile.
    """
    if remembered:
        return remembered
    if not has_many_colours(environ):
        return SIXTEEN
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if ground in LIGHT_GROUNDS else DARK


def has_many_colours(environ: Mapping[str, str]) -> bool:
    """Whether the terminal says that it has 256 or more."""
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return True
    term = environ.get("TERM", "")
    return term.endswith(("256color", "kitty", "direct", "ghostty")) or not term
