"""Removes terminal escape sequences and control characters from text."""

from __future__ import annotations

import re

MAX_SEQUENCE = 512
"""Longest escape sequence; a longer one is text after its first character."""

# The patterns are compiled when a text needs them, which takes milliseconds of the chat's start.

# Parameters of CSI; the strings of OSC, DCS, SOS, PM and APC, which end with BEL or ST.
_PARAMETERS = r"(?:\x1b\[|\x9b)[0-?]{0,100}[ -/]{0,100}"
_STRING = r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,500}"
_SEQUENCE = (
    rf"{_PARAMETERS}[@-~]"
    rf"|{_STRING}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{1,100}[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]"
)
_OPEN_SEQUENCE = rf"{_PARAMETERS}\Z|{_STRING}\x1b?\Z|\x1b[ -/]{{0,100}}\Z|\r\Z"
# C0 but tab and newline, DEL, C1, direction overrides that could disguise text, soft hyphens and
# annotations whose width no two terminals agree on, invisible tags, and halves of surrogate pairs,
# which cannot be encoded.
_UNSAFE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
MAX_MARKS = 6
"""Most combining marks on one character; more are drawn over the adjacent lines."""
_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_MARKS = f"({_MARK}{{{MAX_MARKS}}}){_MARK}+"
_LAST_MARKS = f"{_MARK}{{1,{MAX_MARKS}}}\\Z"
_LINE_BREAKS = "\r\n?|[\x85\u2028\u2029]"


def clean(text: str) -> str:
    """Return `text` without escape sequences and control characters; line breaks become
    newlines.
    """
    # Unsafe characters are never printable, and most text is plain.
    if text.replace("\n", "").isprintable():
        return text if text.isascii() else re.sub(_MARKS, r"\1", text)
    text = re.sub(_SEQUENCE, "", re.sub(_LINE_BREAKS, "\n", text))
    return re.sub(_MARKS, r"\1", re.sub(_UNSAFE, "", text))


def clean_line(text: str) -> str:
    """Return clean text on one line, with a space for each line break."""
    return clean(text).replace("\n", " ")


class StreamCleaner:
    """Cleans streamed text, with the same result as `clean` of the whole."""

    def __init__(self) -> None:
        self._held = ""
        self._marks = ""

    def feed(self, text: str) -> str:
        """Return the new clean text; an incomplete sequence is held back."""
        text = self._held + text
        self._held = ""
        open_sequence = re.compile(_OPEN_SEQUENCE).search(text, max(0, len(text) - MAX_SEQUENCE))
        if open_sequence is not None:
            start = open_sequence.start()
            text, self._held = text[:start], text[start:]
        return self._continued(clean(text))

    def flush(self) -> str:
        """Return the text held back, at the end of the stream."""
        held, self._held = self._held, ""
        return self._continued(clean(held))

    def _continued(self, text: str) -> str:
        """Clean text, counting the combining marks at the end of the previous text."""
        if not text:
            return text
        whole = re.sub(_MARKS, r"\1", self._marks + text) if self._marks else text
        marks = re.search(_LAST_MARKS, whole)
        shown, self._marks = whole[len(self._marks) :], marks[0] if marks else ""
        return shown
