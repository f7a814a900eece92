"""Resolves the model reference that a user typed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from .command_errors import CommandError

if TYPE_CHECKING:
    from ..client.model_types import ModelEntry
    from ..client.sync_client import DaemonClient

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


def wanted_reference(client: DaemonClient, named: str | None, default: str) -> str:
    """Return the model that the user named, else the default.

    If that is not on this machine and others that chat are, the one that the chat would take, too.
    """
    from ..client.model_types import ModelEntries

    if named:
        return sendable_reference(named)
    entries = client.get("/ingle/v1/models", ModelEntries).models
    here = [entry for entry in entries if entry.installed and entry.chat and entry.writes]
    is_missing = any(entry.default and not entry.installed for entry in entries)
    if is_missing and here:
        return min(here, key=lambda entry: entry.state != "ready").name
    return sendable_reference(default)


def find_entry(client: DaemonClient, reference: str) -> ModelEntry:
    """Return what the daemon finds by a name or path: an installed model, or the catalog's.

    Raises `DaemonError`.
    """
    from ..client.model_types import ModelEntry

    return client.get(f"/ingle/v1/models/{quote(reference, safe='')}?catalog=true", ModelEntry)
