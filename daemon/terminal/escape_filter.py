"""Removes escape sequences from streamed model output."""

from __future__ import annotations

import re

from .unsafe_characters import without_unsafe

_SEQUENCE = re.compile(
    r"""\x1b(?:
        \[ [0-?]* [\x20-/]* [@-~]                    # CSI: colours, cursor, modes
      | [\]PX^_] [^\x07\x1b]* (?: \x07 | \x1b\\ )    # OSC, DCS, SOS, PM, APC: titles, clipboard
      | [\x20-/]+ [0-~]                              # character sets
      | [0-OQ-WYZ\\`-~]                             # single functions, reset among them
    )""",
    re.VERBOSE,
)
_UNFINISHED = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[\x20-/]{0,8}|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[\x20-/]{0,8})?\Z"
)


class EscapeFilter:
    """Removes escape sequences and control characters from streamed text.

    Also removes characters that change the writing direction; newlines and tabs stay. A sequence
    may be split anywhere; an unfinished one is held back.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Return the part of the text so far that is safe to show and was not returned before."""
        text = _SEQUENCE.sub("", self._held + text)
        self._held = ""
        if unfinished := _UNFINISHED.search(text):
            self._held = text[unfinished.start() :]
            text = text[: unfinished.start()]
        return without_unsafe(text)
