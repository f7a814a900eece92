"""Prepares text for the full-text index."""

from __future__ import annotations

import re

# Thai to Lao, Myanmar, Khmer, kana, Han, Hangul, and Han beyond the first plane.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
# Colour codes in text pasted from a terminal, which would stick to the words.
_SEQUENCE = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]")


def index_text(text: str) -> str:
    """Return `text` with spaces around each character of scripts without word spaces.

    Each such character is thus a word, and any run of them is found as a phrase. Removing from the
    index requires the same text as adding: a change here needs a migration.
    """
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def is_unspaced(character: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    return _UNSPACED.match(character) is not None
