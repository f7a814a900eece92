"""Download a whole model into a folder of the store: its files, then its manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..catalog import CatalogEntry
from ..errors import HashMismatch, ModelError, PullFailed
from ..gguf.gguf_header import read_file_header, read_header
from ..gguf.gguf_support import check_supported
from ..gguf.projector import read_projector
from ..json_object import read_json_object
from ..metadata.description_cache import describe_model
from ..metadata.manifest import Manifest, ManifestFile
from ..model_task import ModelTask
from ..safetensors.folder_files import CONFIG
from ..safetensors.model_folder import check_settings
from ..safetensors.quantized.quantization_config import read_quantization
from ..safetensors.safetensors_header import read_safetensors_header
from ..sources.download_source import RemoteFile, Source
from ..whisper_files import WEIGHTS as WHISPER_WEIGHTS
from .file_download import Fetched, FileDownload, check_room
from .pull_progress import PullReporter

_GGUF = ".gguf"
_SAFETENSORS = ".safetensors"


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file to fetch, and its sources."""

    file: RemoteFile
    sources: Sequence[Source]


@dataclass(frozen=True, slots=True)
class WantedModel:
    """A model to fetch: its full name, its files, and what its source states about it.

    The file called `projector` is beside the model's own.
    """

    name: str
    files: Sequence[WantedFile]
    entry: CatalogEntry | None = None
    licence: str = ""
    projector: str = ""

    @property
    def size(self) -> int | None:
        """Bytes of all files, if all are known."""
        sizes = [wanted.file.size for wanted in self.files]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    @property
    def is_whisper(self) -> bool:
        """Whether it recognises speech."""
        return any(wanted.file.name == WHISPER_WEIGHTS for wanted in self.files)

    @property
    def task(self) -> ModelTask | None:
        """Its task, if that is known before its files are read."""
        if self.entry is not None:
            return self.entry.task
        return ModelTask.TRANSCRIBE if self.is_whisper else None

    @property
    def first_weights(self) -> str:
        """The file that represents the model; empty for a folder."""
        return next((f.file.name for f in self.files if f.file.name.endswith(_GGUF)), "")


def fetch_model(wanted: WantedModel, folder: Path, reporter: PullReporter) -> Manifest:
    """Fetch and check every file; nothing is a model before the manifest is written.

    Files that an earlier attempt brought are kept. Raises what `FileDownload.run` raises, and
    `ModelError` for a model that cannot be run, of which nothing is left.
    """
    _check_room(wanted, folder)
    fetched: list[Fetched] = []
    try:
        for each in wanted.files:
            reporter.begin_file(sum(one.path.stat().st_size for one in fetched))
            alone = len(wanted.files) == 1 + bool(wanted.projector)
            check = _check_for(each.file.name, alone=alone, whisper=wanted.is_whisper)
            if each.file.name == wanted.projector:
                check = read_projector
            download = FileDownload(wanted.name, folder, each.file, each.sources, reporter, check)
            fetched.append(download.run())
        return manifest_of(wanted, folder, fetched)
    except ModelError as error:
        if isinstance(error, HashMismatch) or not isinstance(error, PullFailed):
            for each in fetched:
                each.path.unlink(missing_ok=True)
        raise


def _check_room(wanted: WantedModel, folder: Path) -> None:
    """Report at the beginning that a model in several files does not fit on the disk."""
    if len(wanted.files) > 1 and wanted.size is not None:
        here = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        check_room(wanted.name, folder, max(0, wanted.size - here))


def _check_for(name: str, *, alone: bool, whisper: bool) -> Callable[[Path], object]:
    """The check of a file, by its name, as far as it does not depend on the other files."""
    if name.endswith(_GGUF):
        return _check_gguf if alone else read_file_header
    if name.endswith(_SAFETENSORS):
        return read_safetensors_header
    if whisper:
        return lambda path: None  # all of them are checked together
    if name == CONFIG:
        return _check_config
    return _check_json if name.endswith(".json") else lambda path: None  # for the tokenizer only


def _check_gguf(path: Path) -> None:
    check_supported(read_header(path))


def _check_config(path: Path) -> None:
    settings = read_json_object(path)
    if settings is not None:
        check_settings(path.parent, settings)
        read_quantization(path.parent, settings)


def _check_json(path: Path) -> None:
    if path.stat().st_size <= 16 << 20:  # what reads a larger one has bounds of its own
        read_json_object(path)


def manifest_of(wanted: WantedModel, folder: Path, fetched: Sequence[Fetched]) -> Manifest:
    """The manifest of a model in a folder; raises `ModelError` if the files are no model."""
    model = describe_model(folder / wanted.first_weights)
    entry = wanted.entry
    files = [ManifestFile(f.path.name, f.path.stat().st_size, f.sha256) for f in fetched]
    details = model.details(
        name=wanted.name, size=sum(file.size for file in files), source=fetched[-1].source
    )
    if entry is not None:
        for name in ("licence", "description", "chat", "sampling"):
            details[name] = getattr(entry, name)
    elif model.licence == "unknown" and wanted.licence:
        details["licence"] = wanted.licence
    return Manifest(
        file=wanted.first_weights,
        files=files if len(files) > 1 else [],
        projector=wanted.projector,
        sha256=model.sha256 or _digest([f for f in files if f.name != wanted.projector]),
        **details,
    )


def _digest(files: Sequence[ManifestFile]) -> str:
    """The file's SHA-256, or one digest of several files."""
    if len(files) == 1:
        return files[0].sha256
    return hashlib.sha256("\n".join(file.sha256 for file in files).encode()).hexdigest()
