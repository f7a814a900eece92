"""Makes text from a model safe to show: no terminal sequence or control character survives."""

from __future__ import annotations

import re

MAX_SEQUENCE = 512
"""What looks like a longer escape sequence is text after its first character."""

# Parameters of CSI; the strings of OSC, DCS, SOS, PM and APC, which end with BEL or ST.
_PARAMETERS = r"(?:\x1b\[|\x9b)[0-?]{0,100}[ -/]{0,100}"
_STRING = r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,500}"
_SEQUENCE = re.compile(
    rf"{_PARAMETERS}[@-~]"
    rf"|{_STRING}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{1,100}[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]"
)
_OPEN_SEQUENCE = re.compile(rf"{_PARAMETERS}\Z|{_STRING}\x1b?\Z|\x1b[ -/]{{0,100}}\Z|\r\Z")
# C0 but tab and newline, DEL, C1, direction overrides that could disguise text, and halves of
# surrogate pairs, which cannot be encoded.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ufeff\ud800-\udfff]"
)
_LINE_BREAKS = re.compile("\r\n?|[\x85\u2028\u2029]")


def clean(text: str) -> str:
    """`text` without escape sequences and control characters; line breaks become newlines."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub("", _SEQUENCE.sub("", _LINE_BREAKS.sub("\n", text)))


class StreamCleaner:
    """Cleans text that arrives in pieces: the same result as `clean` of the whole."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """The clean text so far not returned; an unfinished sequence is held back."""
        text = self._held + text
        self._held = ""
        start = self._open_sequence(text)
        if start is not None:
            text, self._held = text[:start], text[start:]
        return clean(text)

    def flush(self) -> str:
        """What is still held, as text, at the end."""
        held, self._held = self._held, ""
        return clean(held)

    @staticmethod
    def _open_sequence(text: str) -> int | None:
        window = max(0, len(text) - MAX_SEQUENCE)
        match = _OPEN_SEQUENCE.search(text, window)
        return None if match is None else match.start()
