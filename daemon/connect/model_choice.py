"""Chooses the model for a program, and checks that its context suffices."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..client.model_types import ModelEntry
from .client_program import ClientProgram

_CODER = re.compile(r"cod(?:e|er|ing|estral)(?![a-z])|starcoder|devstral", re.IGNORECASE)
_ROOM = 1.25
"""Tokens that an agent needs beyond its own instructions, at the least."""


def choose_model(
    client: ClientProgram, entries: Sequence[ModelEntry], default: str
) -> tuple[str, str | None]:
    """Return the default model, or an installed coding model for a program that writes code.

    The second value is a sentence about the choice, None for the default model.
    """
    coders = [
        entry for entry in entries if entry.installed and entry.chat and _CODER.search(entry.name)
    ]
    if not client.codes or not coders or _CODER.search(default):
        return default, None
    # Of copies of one model the loaded one, and else the first, which the others are `same_as`.
    best = max(
        coders,
        key=lambda entry: (entry.parameters, entry.state == "ready", entry.same_as is None),
    ).name
    return best, f"{best} is used, the largest installed model for code; `--model` selects another."


def warn_of_context(client: ClientProgram, model: str, context: int) -> str | None:
    """Return a warning if the model's context is too small for the program."""
    if not client.tokens or not context or context >= client.tokens * _ROOM:
        return None
    return (
        f"{client.title} sends about {client.tokens} tokens before your first word, and {model} "
        f"can have a context of {context} here: too little. Choose a model with more, or free "
        f"memory for it; `ingle show {model}` says how much it takes."
    )
