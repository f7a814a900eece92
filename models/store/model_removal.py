"""What goes when a model is removed, and what stays because it is not ours."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from ..errors import NotInStore
from ..gguf.gguf_names import shard_paths
from ..metadata.stored_model import StoredModel
from ..safetensors.folder_files import belongs_to_model

_OLLAMA = "Ollama"
_BLOBS = "blobs"


class RemovalReport(msgspec.Struct, frozen=True, kw_only=True):
    """The files that go and the bytes that are free then; `keeps` are files that stay.

    `place` is who keeps the model, empty for ingle; `shared_with` are models that have the same
    file, which therefore frees nothing.
    """

    name: str
    frees: int
    files: list[str] = []
    keeps: list[str] = []
    place: str = ""
    shared_with: list[str] = []


def files_of(model: StoredModel) -> list[Path]:
    """The files that are the model where it lies, with what links to them lead to.

    Raises `NotInStore` where another program would lose track.
    """
    if model.place == _OLLAMA:
        raise NotInStore(
            f"{model.name} is Ollama's, whose models share their files.",
            hint=f"`ollama rm {model.name.partition('@')[0]}` removes it.",
        )
    if model.path.is_dir():
        inside = sorted(path for path in model.path.iterdir() if belongs_to_model(path.name))
        return _with_blobs(inside)
    return _with_blobs(shard_paths(model.path))


def bytes_freed(paths: Iterable[Path]) -> int:
    """What deleting the files gives back: nothing where a file has another name, too."""
    freed = 0
    for path in paths:
        with suppress(OSError):  # it is gone already
            found = path.lstat()
            freed += found.st_size if found.st_nlink == 1 else 0
    return freed


def delete_files(paths: Iterable[Path]) -> None:
    """Delete what `files_of` named, and folders that are empty then; raises `NotInStore`."""
    folders: set[Path] = set()
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise NotInStore(
                f"{path} cannot be deleted: {error.strerror}.",
                hint="Delete it as the user to whom it belongs.",
            ) from error
        folders.add(path.parent)
    for folder in folders:
        with suppress(OSError):  # something else is in there
            folder.rmdir()


def _with_blobs(paths: Iterable[Path]) -> list[Path]:
    """Links of the hub's cache are nothing without their blobs, which lie in the same repository.

    What any other link leads to stays.
    """
    found: list[Path] = []
    for path in paths:
        found.append(path)
        target = path.resolve()
        if path.is_symlink() and target.parent == _blobs_beside(path):
            found.append(target)
    return found


def _blobs_beside(path: Path) -> Path | None:
    """The `blobs` of the repository in whose `snapshots` a path lies."""
    for parent in path.parents:
        if parent.name == "snapshots":
            return (parent.parent / _BLOBS).resolve()
    return None
