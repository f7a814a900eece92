"""Finds the file of a model that the user named."""

from __future__ import annotations

import os
from pathlib import Path

from ...settings.config import load_config
from ..command_errors import CommandError
from ..daemon_launcher import ensure_daemon
from ..model_reference import find_entry, is_hub_reference, matching_entry, sendable_reference
from .pull import pull


def find_model_path(wanted: str) -> tuple[str, str]:
    """Return name and path; a model of the catalog or the hub is pulled first. Raises
    `CommandError`.
    """
    reference = sendable_reference(wanted)
    if Path(reference).is_absolute():
        return Path(reference).name, reference
    client = ensure_daemon(load_config(os.environ))
    models = client.models().models
    if is_hub_reference(reference):
        entry = matching_entry(models, reference) or pull(client, reference)
    else:
        entry = find_entry(models, reference)
    if entry.task != "generate":
        raise CommandError(
            f"{entry.name} does not generate text, and runs on llama.cpp alone.",
            "Only models that generate text can be compared or quantised here.",
        )
    if entry.path is None:
        entry = pull(client, entry.name)
    if entry.path is None:
        raise CommandError(f"{entry.name} was pulled, but its file is missing.", "Pull it again.")
    return entry.name, entry.path
