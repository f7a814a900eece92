"""The cache of Hugging Face's own client, which llama.cpp and many programs share.

Source: huggingface_hub's documentation of its cache: `models--OWNER--REPO` with `refs`, `snapshots`
of links, and `blobs` that are named by their SHA-256 where the hub stores them so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..model_reference import SAFETENSORS
from ..safetensors.folder_files import CONFIG
from .folder_walk import files_below
from .found_model import FoundModel, file_findings, hub_file_name, hub_name, plain_name

_PREFIX = "models--"
_COMMIT = re.compile("[0-9a-f]{40}")
_DIGEST = re.compile("[0-9a-f]{64}")
_DEPTH = 2


def find_in_hugging_face_cache(hub: Path) -> Iterator[FoundModel]:
    """The models of each repository's current snapshot."""
    for entry in sorted(os.scandir(hub), key=lambda entry: entry.name):
        if not entry.name.startswith(_PREFIX):
            continue
        with suppress(OSError):  # it is being removed, or is not ours to read
            if snapshot := _current_snapshot(Path(entry.path)):
                owner, _, repo = entry.name.removeprefix(_PREFIX).rpartition("--")
                yield from _in_snapshot(snapshot, owner, repo)


def _current_snapshot(repository: Path) -> Path | None:
    """What the branch `main` meant when it was fetched last, else the newest."""
    snapshots = repository / "snapshots"
    with suppress(OSError, ValueError):
        commit = (repository / "refs" / "main").read_bytes()[:64].decode("ascii").strip()
        if _COMMIT.fullmatch(commit) and (snapshots / commit).is_dir():
            return snapshots / commit
    found = [path for path in snapshots.iterdir() if path.is_dir()] if snapshots.is_dir() else []
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _in_snapshot(snapshot: Path, owner: str, repo: str) -> Iterator[FoundModel]:
    for path in files_below(snapshot, _DEPTH):
        name = hub_file_name(owner, repo, path.name)
        if finding := file_findings(path, name):
            yield replace(finding, sha256=_digest(path))
    names = set(os.listdir(snapshot))  # noqa: PTH208 - names are all that is needed
    if CONFIG in names and any(name.endswith(".safetensors") for name in names):
        yield FoundModel(hub_name(owner, repo, SAFETENSORS) or plain_name(repo), snapshot)


def _digest(path: Path) -> str | None:
    """The name of the blob that a link leads to, where that is a SHA-256."""
    try:
        name = path.readlink().name
    except OSError:  # a plain file, where the system has no links
        return None
    return name if _DIGEST.fullmatch(name) else None
