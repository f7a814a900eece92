"""A guess of how many tokens a text takes, for as long as nobody has counted them."""

from __future__ import annotations

import re

CHARACTERS_PER_TOKEN = 4.2
"""Of Latin text, as byte-pair vocabularies of 32 000 to 150 000 entries average."""
TOKENS_PER_WIDE = 0.8
"""Of a Chinese, Japanese or Korean character."""
LONG = 50_000
"""Characters from which on the guess is only a division: it is made with every key."""
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` takes; 0 only for nothing."""
    if not text:
        return 0
    if len(text) > LONG:
        return tokens_of(len(text))
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    guess = (len(text) - wide) / CHARACTERS_PER_TOKEN + wide * TOKENS_PER_WIDE
    return max(1, round(guess), len(text.split()) - wide)


def tokens_of(characters: int) -> int:
    """About how many tokens so many characters of Latin text take."""
    return round(characters / CHARACTERS_PER_TOKEN)
