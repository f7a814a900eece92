"""Tokenises the text on which engines are compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...base.errors import LoadFailed

MIN_TOKENS = 2


def default_text() -> str:
    """Return the built-in text: prose, dialogue, code, numbers, several languages."""
    return Path(__file__).with_name("text.txt").read_text(encoding="utf-8")


def split_into_windows(
    token_ids: Sequence[int], *, tokens: int | None, context: int, bos: int | None
) -> list[list[int]]:
    """Split the first `tokens` of the text into windows that fit the context.

    Each has at least two tokens, since the first token of a window is not predicted; with a `bos`,
    every window begins with it. Raises `LoadFailed` if the text is too short.
    """
    wanted = list(token_ids if tokens is None else token_ids[:tokens])
    if tokens is not None and len(wanted) < tokens:
        raise LoadFailed(
            f"The text has {len(wanted)} tokens in this model's vocabulary, not {tokens}.",
            hint="Ask for fewer tokens, or name a longer text with --text.",
        )
    if len(wanted) < MIN_TOKENS:
        raise LoadFailed(
            f"A text of {len(wanted)} tokens has nothing to predict.",
            hint="Name a longer text with --text.",
        )
    if context < MIN_TOKENS + 1:
        raise LoadFailed(
            f"The model's context of {context} tokens is too short to compare anything.",
            hint="Choose another model.",
        )
    windows = [wanted[:context]]
    opening = [] if bos is None else [bos]
    step = context - len(opening)
    for start in range(context, len(wanted), step):
        window = opening + wanted[start : start + step]
        if len(window) >= MIN_TOKENS:
            windows.append(window)
    return windows
