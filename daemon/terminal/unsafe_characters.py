"""Characters that control a terminal, or make text look different from what it is."""

from __future__ import annotations

import json
import re

UNSAFE = re.compile(
    # C0 except tab and newline, DEL and C1; line breaks that only some programs know; surrogates,
    # which cannot be encoded.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
    # Changes of writing direction, which make "exe.gnp" read as a picture.
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    # Zero-width characters, those of differing width, and invisible tags.
    "\xad\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def without_unsafe(text: str) -> str:
    """Return `text` without them; tabs and newlines stay."""
    return text if text.isprintable() else UNSAFE.sub("", text)


def escaped_in_json(text: str) -> str:
    """Return the same JSON with these characters escaped."""
    return UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text)


_COLOURS = re.compile("(\x1b\\[\\d{1,2}m)")


def with_colours_only(text: str) -> str:
    """Return `text` of our own that quotes others: without unsafe characters, but with its
    colours.
    """
    parts = _COLOURS.split(text)
    return "".join(
        part if number % 2 else without_unsafe(part) for number, part in enumerate(parts)
    )


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
