"""Names for the models of others that clash with no other, and which of them is which file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..metadata.stored_model import StoredModel


def merge_listings(own: Sequence[StoredModel], others: Sequence[StoredModel]) -> list[StoredModel]:
    """The models of others as they are listed behind the store's own, whose names come first."""
    names = {model.name.lower() for model in own}
    digests = {identity(model.path): model.sha256 for model in own}
    kept = {identity(model.path) for model in own if not model.place}
    merged: list[StoredModel] = []
    for model in others:
        file = identity(model.path)
        if file in kept:  # a folder of models may be the store itself
            continue
        name = qualified_name(model) if model.name.lower() in names else model.name
        sha256 = model.sha256 or digests.get(file)
        merged.append(msgspec.structs.replace(model, name=name, sha256=sha256))
    return merged


def free_name(model: StoredModel, taken: Mapping[str, StoredModel]) -> str:
    """The model's name, where that is taken its place's behind it, and its path at the worst."""
    names = (model.name, qualified_name(model))
    return next((name for name in names if name.lower() not in taken), str(model.path))


def qualified_name(model: StoredModel) -> str:
    """A name that says whose model it is, such as `llama3.2:latest@ollama`."""
    word = re.sub(r"[^a-z0-9._-]+", "-", Path(model.place).name.lower())
    return f"{model.name}@{word}"


def identity(path: Path) -> tuple[int, int] | Path:
    """What tells whether two names are of one file."""
    try:
        found = path.stat()
    except OSError:
        return path
    return found.st_dev, found.st_ino
