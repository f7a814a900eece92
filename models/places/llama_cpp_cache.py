"""llama.cpp's cache of earlier releases: a flat folder of OWNER_REPOSITORY_FILE.gguf.

Newer ones share the cache of Hugging Face. Source: llama.cpp's common/download.cpp: beside the
files lie `manifest=OWNER=REPO=TAG.json`, the hub's description of a tag's file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from .found_model import FoundModel, find_in_file, hub_file_name, plain_name

_LARGEST_NOTE = 1 << 20
_DIGEST = re.compile("[0-9a-f]{64}")
_URL = re.compile(r"https?://[^/]+/(?P<owner>[^/]+)/(?P<repo>[^/]+)/resolve/[^/]+/(?P<file>[^?]+)")
_FLAT = re.compile(r"(?P<owner>[^_]+)_(?P<repo>.+?-GGUF)_(?P<file>.+)", re.IGNORECASE)


def find_in_llama_cpp_cache(folder: Path) -> Iterator[FoundModel]:
    """Its GGUF files, by the repositories they came from, if known."""
    known = dict(_manifests(folder))
    for path in sorted(folder.glob("*.gguf")):
        owner, repo, file = _origin(path, known)
        name = hub_file_name(owner, repo, file) if owner else plain_name(path.name)
        digest = known[path.name][2] if path.name in known else None
        yield from find_in_file(path, name, digest)


def _manifests(folder: Path) -> Iterator[tuple[str, tuple[str, str, str | None]]]:
    """From files to their owner, repository and digest."""
    for path in folder.glob("manifest=*=*=*.json"):
        _, owner, repo, _ = path.name.split("=", 3)
        file = _object(_read_note(path).get("ggufFile"))
        name = file.get("rfilename")
        if not isinstance(name, str):
            continue
        digest = _object(file.get("lfs")).get("sha256")
        known = isinstance(digest, str) and _DIGEST.fullmatch(digest)
        flat = f"{owner}_{repo}_{name.replace('/', '_')}"
        yield flat, (owner, repo, cast("str", digest) if known else None)


def _origin(path: Path, known: Mapping[str, tuple[str, str, str | None]]) -> tuple[str, str, str]:
    """Owner, repository and file; an empty owner if the name has none."""
    if path.name in known:
        owner, repo, _ = known[path.name]
        return owner, repo, path.name
    url = _read_note(path.with_name(f"{path.name}.json")).get("url")
    match = _URL.fullmatch(url) if isinstance(url, str) else None
    match = match or _FLAT.fullmatch(path.name)
    return (match["owner"], match["repo"], match["file"]) if match else ("", "", path.name)


def _read_note(path: Path) -> dict[str, object]:
    with suppress(OSError, msgspec.DecodeError), path.open("rb") as file:
        return _object(msgspec.json.decode(file.read(_LARGEST_NOTE)))
    return {}


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
