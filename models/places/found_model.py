"""A model in the folder of another program, usable or not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..gguf.gguf_names import (
    is_head_name,
    is_language_model,
    model_stem,
    parse_shard,
    quantization_in,
    quantization_of,
)
from ..metadata.stored_model import FirstMessage
from ..model_reference import CTRANSLATE2, SAFETENSORS, HubReference, hub_repository
from ..safetensors.folder_files import CONFIG
from ..whisper_files import is_whisper


class FoundModel(msgspec.Struct, frozen=True):
    """A model by the name it has there; `problem` says why it cannot be used.

    `sha256` is known if the program names files by it, and a `projector` if it is not a file beside
    the model. The other fields override the file's own: a
    licence, a system prompt, first messages and options with Ollama's names; `notes` list settings
    of the program that are not used.
    """

    name: str
    path: Path
    sha256: str | None = None
    projector: Path | None = None
    problem: str = ""
    licence: str = ""
    system: str = ""
    messages: tuple[FirstMessage, ...] = ()
    options: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()


class Place(msgspec.Struct, frozen=True):
    """A folder that another program fills; `find` lists what is in it, and raises `OSError`."""

    title: str
    folder: Path
    find: Callable[[Path], Iterable[FoundModel]]


def find_in_file(path: Path, name: str, sha256: str | None = None) -> Iterator[FoundModel]:
    """A GGUF file under `name`, unless it is no model or belongs to a first part that is there."""
    shard = parse_shard(path.name)
    if not (is_language_model(path.name) or is_head_name(path.name)):
        return
    problem = unreadable(path)
    if shard is not None and shard.number > 1:
        first = path.with_name(shard.names()[0])
        if first.exists():
            return
        problem = f"its first part, {first.name}, is not there"
    yield FoundModel(name, path, sha256, problem=problem)


def find_in_folder(path: Path, names: Collection[str], name: str) -> Iterator[FoundModel]:
    """A folder that holds files of these `names`, if they are safetensors with their settings,
    or a model that recognises speech.
    """
    safetensors = CONFIG in names and any(file.endswith(".safetensors") for file in names)
    if safetensors or is_whisper(names):
        yield FoundModel(name, path)


def unreadable(path: Path) -> str:
    """Why a file cannot be opened, or "": a link's target may be gone or not readable."""
    if not path.exists():
        return "it is a link to a file that is gone" if path.is_symlink() else "it is gone"
    return "" if os.access(path, os.R_OK) else "it may not be read"


def hub_name(owner: str, repo: str, tag: str) -> str | None:
    """The name that `ingle pull` would give it; None if it cannot be from the hub."""
    if hub_repository(f"{owner}/{repo}") is None:
        return None
    return str(HubReference(owner, repo, tag))


def hub_file_name(owner: str, repo: str, file: str) -> str:
    """The name of a repository's GGUF file."""
    return hub_name(owner, repo, quantization_of(file)) or plain_name(file)


def hub_folder_name(owner: str, repo: str, names: Collection[str]) -> str:
    """The name of a repository's safetensors, or of a model that recognises speech."""
    tag = CTRANSLATE2 if is_whisper(names) else SAFETENSORS
    return hub_name(owner, repo, tag) or plain_name(repo)


def plain_name(file: str) -> str:
    """A catalog-like name for a file or folder that has only its file name."""
    quant = quantization_in(file)
    stem = _word(model_stem(file)) or "model"
    return f"{stem}:{quant.lower()}" if quant else stem


def _word(text: str) -> str:
    """The text reduced to a name: lower case, without special characters."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("._-")[:64].strip("._-")
