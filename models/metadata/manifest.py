"""Manifests of stored models: reading, writing, and the facts that model files contain."""

from __future__ import annotations

import hashlib
import os
import re
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..catalog import FILE
from ..durable_folder import sync_folder
from ..errors import InvalidModel
from ..gguf.gguf_names import shard_paths
from ..model_task import task_of
from ..safetensors.folder_files import CONFIG
from ..struct_preparation import prepared
from ..vision.picture_encoders import find_encoder
from .stored_model import ModelDetails, StoredModel

if TYPE_CHECKING:
    from ..gguf.gguf_header import GGUFHeader
    from ..safetensors.model_folder import ModelFolder

MANIFEST = "manifest.json"
_MAX_MANIFEST = 1 << 20
_VERSION_FOLDER = re.compile(r"\.versions/[0-9a-f]{16}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_LONGEST_TEXT = 300
_SAMPLE = 4096
_VERSION = b"1"


class ManifestFile(msgspec.Struct, frozen=True):
    """One file of a model in several."""

    name: str
    size: int
    sha256: str


class Manifest(ModelDetails, frozen=True, kw_only=True):
    """A model as it is written down, with the file's name in place of its path.

    `file` is empty for a folder of safetensors, and the first of `files` for GGUF in parts. The
    files lie in the model's folder, or in `folder` below it after an update. A model outside the
    store has an absolute `path` instead, and the `place` that keeps it. `sha256` is empty for one
    whose file was not hashed. The `projector` is one of `files`, another file of the folder, or an
    absolute path.
    """

    version: int = 1
    file: str
    folder: str = ""
    files: list[ManifestFile] = msgspec.field(default_factory=list[ManifestFile])
    path: str = ""
    projector: str = ""
    sha256: str

    def __post_init__(self) -> None:
        known = FILE.fullmatch(self.file) or (not self.file and (self.files or self.path))
        plain = all(_PLAIN_NAME.fullmatch(file.name) for file in self.files)
        inside = not self.folder or _VERSION_FOLDER.fullmatch(self.folder)
        own = _PLAIN_NAME.fullmatch(self.projector) or Path(self.projector).is_absolute()
        plain = plain and (not self.projector or bool(own))
        if self.version != 1 or not known or not plain or not inside:
            raise ValueError("it was written by another version of ingle, or by something else")

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file by its name."""
        return {file.name: file.sha256 for file in self.files} or {self.file: self.sha256}


def describe_file(path: Path, header: GGUFHeader) -> StoredModel:
    """A model that is used where it lies, named by its path."""
    return StoredModel(
        name=str(path),
        path=path,
        size=sum(file.stat().st_size for file in header.files),
        sha256=None,
        licence=clean_text(header.licence or "unknown"),
        description=clean_text(header.name),
        parameters=header.parameters,
        quantization=header.quantization,
        architecture=header.architecture,
        context=header.context,
        chat=header.has_chat_template,
        source="file",
        task=task_of(header),
    )


def describe_folder(folder: ModelFolder) -> StoredModel:
    """A folder of safetensors that is used where it lies, named by its path."""
    return StoredModel(
        name=str(folder.path),
        path=folder.path,
        size=folder.tensor_bytes,
        sha256=fingerprint(folder),
        licence="unknown",
        description=clean_text(folder.name),
        parameters=folder.parameters,
        quantization=folder.quantization,
        architecture=folder.config.architecture,
        context=folder.config.context,
        chat=folder.has_chat_template,
        source="folder",
        notes=_notes(folder),
    )


def _notes(folder: ModelFolder) -> list[str]:
    """What a user would not expect of a folder's weights."""
    if folder.held_bytes <= 1.1 * folder.tensor_bytes:
        return []
    return [
        f"No kernel computes with weights in {folder.quantization}: they are held in 16 bits, "
        f"which takes {folder.held_bytes / 1e9:.2f} GB."
    ]


def read_manifest(folder: Path) -> StoredModel:
    """The model of a folder with a manifest; raises `OSError` or `ValueError` if it has none."""
    manifest = load_manifest(folder)
    model = Path(manifest.path or folder / manifest.folder / manifest.file)
    check_sizes(manifest, folder)
    projector = folder / manifest.folder / manifest.projector if manifest.projector else None
    if projector is None and (manifest.path or not manifest.file):
        projector = find_encoder(model)
    if projector is not None and not projector.exists():
        projector = None
    return StoredModel(
        path=model, sha256=manifest.sha256 or None, projector=projector, **manifest.details()
    )


def load_manifest(folder: Path) -> Manifest:
    """A manifest, without a look at the model's files; raises `OSError` or `ValueError`."""
    with (folder / MANIFEST).open("rb") as file:
        raw = file.read(_MAX_MANIFEST + 1)
    if len(raw) > _MAX_MANIFEST:
        raise ValueError("it is far too large")
    return msgspec.json.decode(raw, type=prepared(Manifest))


def in_place_manifest(name: str, model: StoredModel, sha256: str) -> Manifest:
    """The manifest of a model that lies outside the store, under a name of the store."""
    details = model.details(name=name, chat_template=None, dimensions=[], parent="")
    projector = "" if model.projector is None else str(model.projector)
    return Manifest(file="", path=str(model.path), sha256=sha256, projector=projector, **details)


def check_sizes(manifest: Manifest, folder: Path) -> None:
    """Raise `OSError` or `ValueError` where a file is not the one that was written down.

    `folder` is the model's.
    """
    inside = folder / manifest.folder
    model = Path(manifest.path or inside / manifest.file)
    sizes = {inside / file.name: file.size for file in manifest.files}
    for path, size in sizes.items():
        if path.stat().st_size != size:
            raise ValueError(f"{path.name} is not {size} bytes long")
    if sizes or model.is_dir():
        return
    if sum(path.stat().st_size for path in shard_paths(model)) != manifest.size:
        raise ValueError(f"{model.name} is not {manifest.size} bytes long")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make the model of a folder visible, durably and in one step."""
    temporary = folder / f"{MANIFEST}.tmp"
    with temporary.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / MANIFEST)
    sync_folder(folder)


def clean_text(text: str) -> str:
    """Text of an untrusted file without control characters, which could drive a terminal."""
    return "".join(letter for letter in text if letter.isprintable())[:_LONGEST_TEXT]


def fingerprint(folder: ModelFolder) -> str:
    """64 hexadecimal digits that identify a model's weights, equal for a copy.

    Covers the configuration, every tensor's name, type and shape, and 4 KiB from the middle of
    each: reading all weights would take as long as loading them. Raises `InvalidModel` if the files
    change meanwhile.
    """
    digest = hashlib.sha256(_VERSION)
    try:
        digest.update((folder.path / CONFIG).read_bytes())
        places = sorted(folder.tensors.values(), key=lambda place: (place[0], place[1].offset))
        for path, tensors in groupby(places, key=itemgetter(0)):
            with path.open("rb") as file:
                for _, tensor in tensors:
                    digest.update(f"\n{tensor.name} {tensor.dtype} {tensor.shape}\n".encode())
                    file.seek(tensor.offset + max(0, (tensor.bytes - _SAMPLE) // 2))
                    digest.update(file.read(min(_SAMPLE, tensor.bytes)))
    except OSError as error:
        raise InvalidModel(
            f"{folder.path} cannot be read: {error.strerror}.", hint="Check its files."
        ) from error
    return digest.hexdigest()
