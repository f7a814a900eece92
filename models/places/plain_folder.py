"""A folder of model files that the user maintains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..safetensors.folder_files import CONFIG
from .folder_walk import files_below
from .found_model import FoundModel, file_findings, plain_name

_DEPTH = 4


def find_in_plain_folder(folder: Path) -> Iterator[FoundModel]:
    """GGUF files, and folders with safetensors and their configuration, a few levels down."""
    folders: dict[Path, set[str]] = {}
    for path in files_below(folder, _DEPTH):
        folders.setdefault(path.parent, set()).add(path.name)
        if finding := file_findings(path, plain_name(path.name)):
            yield finding
    for parent, names in folders.items():
        if CONFIG in names and any(name.endswith(".safetensors") for name in names):
            yield FoundModel(plain_name(parent.name), parent)
