"""Resolves the model reference that a user typed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from .command_errors import CommandError

if TYPE_CHECKING:
    from ..client.model_types import ModelEntry

_HUB = re.compile(r"(https://)?(www\.)?(hf\.co|huggingface\.co)/", re.IGNORECASE)


def is_hub_reference(text: str) -> bool:
    """Whether it names a repository of the Hugging Face hub."""
    return _HUB.match(text) is not None


def sendable_reference(text: str) -> str:
    """Return the reference for the daemon: a relative path is made absolute.

    Raises `CommandError` for invalid bytes, which JSON cannot represent.
    """
    if not text.isprintable() and any("\ud800" <= c <= "\udfff" for c in text):
        shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        raise CommandError(f"The name '{shown}' is not UTF-8.", "Rename the file, or link to it.")
    if is_hub_reference(text):
        return text
    # A name of another program may contain a slash: `user/model:tag`.
    is_path = text.startswith((".", "~", "/", os.sep)) or ("/" in text and Path(text).exists())
    if is_path or (text.lower().endswith(".gguf") and Path(text).exists()):
        return str(Path(text).expanduser().absolute())
    return text


def matching_entry(models: Sequence[ModelEntry], reference: str) -> ModelEntry | None:
    """Return the entry of that name, else the first of that family (`smollm2` for `smollm2:135m`).

    Installed models come first in the list, so they take precedence over those of the catalog.
    """
    wanted = reference.lower()
    exact = [entry for entry in models if entry.name.lower() == wanted]
    family = [entry for entry in models if entry.name.lower().partition(":")[0] == wanted]
    found = exact or family
    return found[0] if found else None


def find_entry(models: Sequence[ModelEntry], reference: str) -> ModelEntry:
    """Like `matching_entry`; raises `CommandError` with the most similar name."""
    if entry := matching_entry(models, reference):
        return entry
    names = [entry.name for entry in models]
    nearest = get_close_matches(reference, names + [n.partition(":")[0] for n in names], n=1)
    raise CommandError(
        f"There is no model '{reference}' here or in the catalog.",
        f"Did you mean '{nearest[0]}'?" if nearest else "`ingle list` shows all.",
    )
