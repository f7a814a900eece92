"""Estimates the tokens of a text until they are counted."""

from __future__ import annotations

import re

CHARACTERS_PER_TOKEN = 4.2
"""Average of Latin text with byte-pair vocabularies of 32 000 to 150 000 entries."""
TOKENS_PER_WIDE = 0.8
"""Average of a Chinese, Japanese or Korean character."""
PICTURE = 300
"""Tokens of a picture until the model has counted it; families take from 64 to some thousands."""
LONG = 50_000
"""Characters above which the estimate is a mere division, since it runs at every key."""
_WIDE = r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]"
"""Compiled when a text needs it, which takes milliseconds of the chat's start."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text`; 0 only for an empty text."""
    if not text:
        return 0
    if len(text) > LONG:
        return tokens_of(len(text))
    wide = 0 if text.isascii() else len(re.findall(_WIDE, text))
    estimate = (len(text) - wide) / CHARACTERS_PER_TOKEN + wide * TOKENS_PER_WIDE
    return max(1, round(estimate), len(text.split()) - wide)


def tokens_of(characters: int) -> int:
    """Estimate the tokens of this many characters of Latin text."""
    return round(characters / CHARACTERS_PER_TOKEN)
