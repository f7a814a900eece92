"""What can be done with a prompt that no longer fits into the context."""

from __future__ import annotations

from typing import Literal

from ..text import number_format

Choice = Literal["compact", "send", "trim"]
CHOICES: tuple[tuple[Choice, str, str], ...] = (
    ("compact", "Compact, then send", "sums up what was said earlier"),
    ("send", "Send anyway", "it may be refused"),
    ("trim", "Trim, then send", "drops old files and long texts"),
)


def full_sentence(used: int, prompt: int, context: int) -> str:
    """Why one has to choose; counts are tokens."""
    return (
        f"About {number_format.tokens(used + prompt)} of {number_format.tokens(context)} tokens: "
        "this prompt leaves no room for an answer."
    )
