"""LM Studio's folder: PUBLISHER/REPOSITORY/FILES, as on the hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..model_reference import SAFETENSORS
from ..safetensors.folder_files import CONFIG
from .found_model import FoundModel, file_findings, hub_file_name, hub_name, plain_name


def find_in_lm_studio(folder: Path) -> Iterator[FoundModel]:
    """Its GGUF files, and its folders of safetensors."""
    for repository in sorted(folder.glob("*/*")):
        if repository.name.startswith(".") or repository.parent.name.startswith("."):
            continue
        with suppress(OSError):  # not ours to read
            yield from _in_repository(repository)


def _in_repository(repository: Path) -> Iterator[FoundModel]:
    owner, repo = repository.parent.name, repository.name
    if not repository.is_dir():
        return
    files = sorted(repository.iterdir())
    for path in files:
        if finding := file_findings(path, hub_file_name(owner, repo, path.name)):
            yield finding
    names = {path.name for path in files}
    if CONFIG in names and any(name.endswith(".safetensors") for name in names):
        yield FoundModel(hub_name(owner, repo, SAFETENSORS) or plain_name(repo), repository)
