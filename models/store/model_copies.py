"""Make models from others: copies under another name, and files with settings of their own."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..durable_folder import make_durable_folder
from ..errors import ModelNotFound, UnsupportedModel, UnusableName
from ..gguf.gguf_header import read_header
from ..gguf.gguf_names import parse_shard
from ..gguf.gguf_support import check_supported
from ..gguf.projector import read_projector
from ..metadata.manifest import (
    Manifest,
    describe_file,
    in_place_manifest,
    read_manifest,
    write_manifest,
)
from ..metadata.stored_model import FirstMessage, StoredModel
from ..model_reference import CatalogReference, parse_reference
from ..places.found_model import plain_name
from ..sources.partial_file import disk_failure
from .blob_folder import BlobFolder, checked_digest

if TYPE_CHECKING:
    from ..catalog import CatalogEntry
    from .model_store import ModelStore

_FILE = "model.gguf"
_PROJECTOR = "mmproj.gguf"
_BLOBS = ".blobs"
_LARGEST_MANIFEST = 2**18


class ModelOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a new model overrides; None keeps them.

    `options` have Ollama's names, `sampling` those of them that every protocol has.
    """

    system: str | None = None
    messages: list[FirstMessage] | None = None
    options: dict[str, Any] | None = None
    sampling: dict[str, float] | None = None
    licence: str | None = None
    chat_template: str | None = None


class ModelCopier:
    """Makes models in a store; their weights are links, so that a copy takes no disk space."""

    def __init__(self, store: ModelStore) -> None:
        self._store = store
        self.blobs = BlobFolder(store.root / _BLOBS)

    def copy(
        self, source: StoredModel, name: str, changes: ModelOverrides | None = None
    ) -> StoredModel:
        """The same weights under another name; hashes the file if its digest is unknown.

        Raises `UnusableName`, `UnsupportedModel`, `ModelInUse`, and `PullFailed` for a full disk.
        """
        if not source.path.is_file() or parse_shard(source.path.name):
            raise UnsupportedModel(
                f"{source.name} is more than one file, and only single files can be copied.",
                hint="Name its path, or an alias in the configuration.",
            )
        return self._make(source, source.path, name, changes or ModelOverrides())

    def from_blob(self, digest: str, name: str, changes: ModelOverrides) -> StoredModel:
        """A model of an uploaded file, which is then removed from the uploads.

        Raises as `copy`, and `ModelNotFound`, `InvalidModel` or `UnsupportedModel` for the file.
        """
        path = self.find(digest)
        if path is None:
            raise ModelNotFound(
                f"There is no file with the digest {digest[:80]!r} here.", hint="Upload it first."
            )
        header = read_header(path)
        check_supported(header)
        described = msgspec.structs.replace(
            describe_file(path, header), name="", sha256=checked_digest(digest), source="created"
        )
        model = self._make(described, path, name, changes)
        if path.parent == self._store.root / _BLOBS:
            path.unlink(missing_ok=True)
        return model

    def add(
        self, path: Path, name: str | None = None, projector: Path | None = None
    ) -> StoredModel:
        """A name in the store for a file or folder, which stays where it is.

        With a `projector` it sees pictures; else one beside the file is used.
        Without a `name` one is made of its own; a name of the catalog is only for the file that the
        catalog means. Raises `UnusableName`, also where another model has the name, `ModelInUse`,
        `PullFailed`, and what `ModelStore.resolve` raises for the path.
        """
        model = self._store.resolve(str(path))
        if projector is not None:
            read_projector(projector)
            model = msgspec.structs.replace(model, projector=projector)
        base = name or plain_name(model.path.name)
        sha256 = model.sha256 or ""
        entry = self._store.catalog.find(base)
        if entry is None and name is None:  # the file's name may end with its quantization
            entry = self._store.catalog.find(base.partition(":")[0])
        if entry is not None and _is_file_of(entry, model):
            full_name, sha256 = entry.full_name, entry.sha256
        else:
            tagged = base if ":" in base else f"{base.lower()}:{model.quantization.lower()}"
            full_name = self.free_name(base if name else tagged)
            if ":" not in base:
                full_name = tagged
        taken = next((m for m in self._store.own() if m.name == full_name), None)
        if taken is not None and taken.path != model.path:
            raise UnusableName(
                f"There is a model called {full_name} already.",
                hint=f"Choose another name: `ingle add {path} NAME`.",
            )
        placed = msgspec.structs.replace(model, place=model.place or str(model.path.parent))
        return self._install(in_place_manifest(full_name, placed, sha256))

    def find(self, digest: str) -> Path | None:
        """The file with this digest, uploaded or installed; raises `UnusableName`."""
        if blob := self.blobs.find(digest):
            return blob
        wanted = checked_digest(digest)
        return next((m.path for m in self._store.list() if m.sha256 == wanted), None)

    def _make(
        self, source: StoredModel, path: Path, name: str, changes: ModelOverrides
    ) -> StoredModel:
        manifest = _manifest(source, path, self.free_name(name), changes)
        return self._install(manifest, path, source.projector)

    def _install(
        self, manifest: Manifest, file: Path | None = None, projector: Path | None = None
    ) -> StoredModel:
        """Write the manifest into the model's folder, with links to the files that are given."""
        try:
            with self._store.folders.claim(manifest.name) as folder:
                make_durable_folder(folder)
                if file is not None:
                    _link(file, folder / _FILE)
                if projector is not None:
                    _link(projector, folder / _PROJECTOR)
                write_manifest(folder, manifest)
                return read_manifest(folder)
        except OSError as error:
            raise disk_failure(error, self._store.root) from error

    def free_name(self, name: str) -> str:
        """The full name of a model to be made; raises `UnusableName`."""
        try:
            parsed = parse_reference(name)
        except ModelNotFound as error:
            raise UnusableName(
                f"{name[:200]!r} cannot be a model's name.", hint=error.hint
            ) from None
        if not isinstance(parsed, CatalogReference):
            raise UnusableName(
                f"{name[:200]!r} cannot be the name of a model that is made here.",
                hint="Choose one without a slash, such as `mine` or `mine:small`.",
            )
        full_name = f"{parsed.name}:{parsed.tag or 'latest'}"
        if entry := self._store.catalog.find(str(parsed)):
            raise UnusableName(
                f"{name[:200]!r} is the catalog's name for {entry.full_name}.",
                hint="Choose another name, or write an alias into the configuration.",
            )
        return full_name


def _manifest(source: StoredModel, path: Path, name: str, changes: ModelOverrides) -> Manifest:
    details = source.details(
        name=name,
        licence=changes.licence or source.licence,
        chat=source.chat or changes.chat_template is not None,
        sampling={**source.sampling, **(changes.sampling or {})},
        chat_template=changes.chat_template or source.chat_template,
        parent=source.name,
        system=source.system if changes.system is None else changes.system,
        messages=source.messages if changes.messages is None else changes.messages,
        options={**source.options, **(changes.options or {})},
        place="",
        size=path.stat().st_size,
    )
    manifest = Manifest(
        file=_FILE,
        sha256=source.sha256 or _digest(path),
        projector="" if source.projector is None else _PROJECTOR,
        **details,
    )
    if len(msgspec.json.encode(manifest)) > _LARGEST_MANIFEST:
        raise UnusableName(
            f"A model's own texts may have {_LARGEST_MANIFEST // 1024} KiB together.",
            hint="Shorten them.",
        )
    return manifest


def _is_file_of(entry: CatalogEntry, model: StoredModel) -> bool:
    """Whether the model is the catalog's own file; a file of the same size is hashed."""
    if not model.path.is_file() or model.size != entry.size:
        return False
    return (model.sha256 or _digest(model.path)) == entry.sha256


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _link(source: Path, target: Path) -> None:
    """Link the file under another name, or copy it to another disk; its content is durable."""
    fresh = target.with_name(f"{target.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        os.link(source, fresh)
    except OSError:
        shutil.copyfile(source, fresh)
        with fresh.open("r+b") as copy:
            os.fsync(copy.fileno())
    fresh.replace(target)
    fresh.unlink(missing_ok=True)  # renaming one link of a file to another does nothing
