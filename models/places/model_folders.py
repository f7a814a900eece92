"""Models in folders: the user's own, LM Studio's, and the cache of Hugging Face's own client.

LM Studio has PUBLISHER/REPOSITORY/FILES, as on the hub. The cache, which llama.cpp and many
programs share, has `models--OWNER--REPO` with `refs`, `snapshots` of links, and `blobs` that are
named by their SHA-256 if the hub stores them so. Source: huggingface_hub's documentation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .found_model import (
    FoundModel,
    find_in_file,
    find_in_folder,
    hub_file_name,
    hub_folder_name,
    plain_name,
)

_MOST = 20_000
"""The most entries of one folder's tree, which may be a home folder."""
_PLAIN_DEPTH = 4
_REPOSITORY_PREFIX = "models--"
_COMMIT = re.compile("[0-9a-f]{40}")
_DIGEST = re.compile("[0-9a-f]{64}")
_SNAPSHOT_DEPTH = 2


def files_below(folder: Path, depth: int) -> Iterator[Path]:
    """Files in a folder and up to `depth` levels below it, sorted by name.

    Leaves out hidden entries and linked folders, which could form cycles. Raises `OSError` if the
    folder itself cannot be read.
    """
    yield from _files_below(folder, depth, [_MOST])


def _files_below(folder: Path, depth: int, left: list[int]) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        left[0] -= 1
        if left[0] < 0:
            return
        if entry.name.startswith("."):
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)
        elif depth > 0:
            with suppress(OSError):  # not readable
                yield from _files_below(Path(entry.path), depth - 1, left)


def find_in_plain_folder(folder: Path) -> Iterator[FoundModel]:
    """GGUF files, and folders with safetensors and their configuration, a few levels down."""
    folders: dict[Path, set[str]] = {}
    for path in files_below(folder, _PLAIN_DEPTH):
        folders.setdefault(path.parent, set()).add(path.name)
        yield from find_in_file(path, plain_name(path.name))
    for parent, names in folders.items():
        yield from find_in_folder(parent, names, plain_name(parent.name))


def find_in_lm_studio(folder: Path) -> Iterator[FoundModel]:
    """Its GGUF files, and its folders of safetensors."""
    for repository in sorted(folder.glob("*/*")):
        if repository.name.startswith(".") or repository.parent.name.startswith("."):
            continue
        with suppress(OSError):  # not readable
            yield from _in_repository(repository)


def _in_repository(repository: Path) -> Iterator[FoundModel]:
    owner, repo = repository.parent.name, repository.name
    if not repository.is_dir():
        return
    files = sorted(repository.iterdir())
    for path in files:
        yield from find_in_file(path, hub_file_name(owner, repo, path.name))
    names = {path.name for path in files}
    yield from find_in_folder(repository, names, hub_folder_name(owner, repo, names))


def find_in_hugging_face_cache(hub: Path) -> Iterator[FoundModel]:
    """The models of each repository's current snapshot."""
    for entry in sorted(os.scandir(hub), key=lambda entry: entry.name):
        if not entry.name.startswith(_REPOSITORY_PREFIX):
            continue
        with suppress(OSError):  # it is being removed, or not readable
            if snapshot := _current_snapshot(Path(entry.path)):
                owner, _, repo = entry.name.removeprefix(_REPOSITORY_PREFIX).rpartition("--")
                yield from _in_snapshot(snapshot, owner, repo)


def _current_snapshot(repository: Path) -> Path | None:
    """The snapshot of the branch `main` as it was fetched last, else the newest."""
    snapshots = repository / "snapshots"
    with suppress(OSError, ValueError):
        commit = (repository / "refs" / "main").read_bytes()[:64].decode("ascii").strip()
        if _COMMIT.fullmatch(commit) and (snapshots / commit).is_dir():
            return snapshots / commit
    found = [path for path in snapshots.iterdir() if path.is_dir()] if snapshots.is_dir() else []
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _in_snapshot(snapshot: Path, owner: str, repo: str) -> Iterator[FoundModel]:
    for path in files_below(snapshot, _SNAPSHOT_DEPTH):
        yield from find_in_file(path, hub_file_name(owner, repo, path.name), _digest(path))
    names = set(os.listdir(snapshot))  # noqa: PTH208 - names are all that is needed
    yield from find_in_folder(snapshot, names, hub_folder_name(owner, repo, names))


def _digest(path: Path) -> str | None:
    """The name of the blob that a link points to, if it is a SHA-256."""
    try:
        name = path.readlink().name
    except OSError:  # a plain file, where the system has no links
        return None
    return name if _DIGEST.fullmatch(name) else None
