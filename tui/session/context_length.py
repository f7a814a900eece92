"""Parses the context length that a person types."""

from __future__ import annotations

LEAST_CONTEXT, MOST_CONTEXT = 256, 2**24


def parse_context(text: str) -> int | None:
    """The number of tokens, None if no context can have that length."""
    digits = text.replace(" ", "").replace(",", "").replace("_", "")
    if not digits.isdecimal() or not LEAST_CONTEXT <= int(digits) <= MOST_CONTEXT:
        return None
    return int(digits)
