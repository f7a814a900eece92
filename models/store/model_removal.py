"""Plan and carry out the removal of a model's files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from ..errors import DiskUnusable, NotInStore
from ..gguf.gguf_names import shard_paths
from ..metadata.stored_model import StoredModel
from ..model_task import ModelTask
from ..safetensors.folder_files import belongs_to_model
from ..whisper_files import FILES

_OLLAMA = "Ollama"
_BLOBS = "blobs"


class RemovalReport(msgspec.Struct, frozen=True, kw_only=True):
    """The files to remove and the bytes that this frees; `keeps` are files that stay.

    `place` is the program that keeps the model, empty for ingle; `shared_with` are models that have
    the same file, whose removal therefore frees nothing.
    """

    name: str
    frees: int
    files: list[str] = []
    keeps: list[str] = []
    place: str = ""
    shared_with: list[str] = []


def files_of(model: StoredModel) -> list[Path]:
    """The files of the model at its place, with the targets of links.

    Raises `NotInStore` if another program would lose track of them.
    """
    if model.place == _OLLAMA:
        raise NotInStore(
            f"{model.name} is Ollama's, whose models share their files.",
            hint=f"`ollama rm {model.name.partition('@')[0]}` removes it.",
        )
    if model.path.is_dir():
        speech = FILES if model.task is ModelTask.TRANSCRIBE else ()
        inside = sorted(
            path
            for path in model.path.iterdir()
            if belongs_to_model(path.name) or path.name in speech
        )
        return _with_blobs(inside)
    return _with_blobs(shard_paths(model.path))


def bytes_freed(paths: Iterable[Path]) -> int:
    """The bytes that deleting the files frees: none for a file that has a link elsewhere."""
    links: dict[tuple[int, int], list[os.stat_result]] = {}
    for path in paths:
        with suppress(OSError):  # it is gone already
            found = path.lstat()
            links.setdefault((found.st_dev, found.st_ino), []).append(found)
    return sum(same[0].st_size for same in links.values() if same[0].st_nlink == len(same))


def delete_files(paths: Iterable[Path]) -> None:
    """Delete the files from `files_of`, and folders that become empty; raises `NotInStore`
    and `DiskUnusable`.
    """
    folders: set[Path] = set()
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except PermissionError as error:
            raise NotInStore(
                f"{path} cannot be deleted: {error.strerror}.",
                hint="Delete it as the user to whom it belongs.",
            ) from error
        except OSError as error:
            raise DiskUnusable(
                f"{path} cannot be deleted: {error.strerror or error}.",
                hint="Check the disk, and try again.",
            ) from error
        folders.add(path.parent)
    for folder in folders:
        with suppress(OSError):  # something else is in there
            folder.rmdir()


def _with_blobs(paths: Iterable[Path]) -> list[Path]:
    """Links of the hub's cache, with their blobs in the same repository.

    The targets of other links stay.
    """
    found: list[Path] = []
    for path in paths:
        found.append(path)
        target = path.resolve()
        # The `blobs` of the repository in whose `snapshots` the link lies.
        snapshots = (parent for parent in path.parents if parent.name == "snapshots")
        blobs = [(parent.parent / _BLOBS).resolve() for parent in snapshots][:1]
        if path.is_symlink() and target.parent in blobs:
            found.append(target)
    return found
