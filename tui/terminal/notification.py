"""Notifications by the terminal's own sequences."""

from __future__ import annotations

from collections.abc import Mapping


def notification(text: str, env: Mapping[str, str]) -> str:
    """Return the sequence that has the terminal show `text`; those that know none ignore it.

    `text` has no control characters.
    """
    term = env.get("TERM", "")
    if "VTE_VERSION" in env or term.startswith(("rxvt", "foot")):
        sequence = f"\x1b]777;notify;ingle;{text}\x1b\\"
    else:
        sequence = f"\x1b]9;{text}\x07"
    if "TMUX" in env:
        escaped = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{escaped}\x1b\\"
    return sequence
