"""The models on this machine: listing, finding, fetching and removing them."""

from __future__ import annotations

import difflib
import logging
import os
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from .catalog import (
    HUB_HOST,
    LATEST_TAG,
    Catalog,
    CatalogEntry,
    HubLocation,
    Location,
    PackageIndexLocation,
)
from .download import Download, Fetched
from .errors import ModelError, ModelInUse, ModelNotFound
from .file_lock import FileLock
from .gguf import read_header
from .model_folder import is_model_folder, read_folder
from .progress import OnPullProgress, PullReporter
from .reference import CatalogReference, HubReference, PathReference, parse_reference
from .sources.base import Cancelled, RemoteFile, Source, raise_if_cancelled
from .sources.package_index import SCRATCH_PREFIX, PackageIndexSource
from .sources.partial import disk_failure
from .stored_model import (
    MANIFEST,
    Manifest,
    StoredModel,
    describe_file,
    describe_folder,
    read_manifest,
    write_manifest,
)
from .supported import check_supported

logger = logging.getLogger(__name__)

_LOCKS = ".locks"
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A model to fetch: its full name, its file, and where that may come from."""

    name: str
    file: RemoteFile
    sources: list[Source]
    entry: CatalogEntry | None = None


Stamp = tuple[tuple[str, int, int], ...]
"""Name, time of change and size of a file, or of all files in a folder."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a file or folder outside the store was found to be, as long as it does not change."""

    stamp: Stamp
    model: StoredModel


@dataclass(slots=True)
class ModelStore:
    """A folder of models, `NAME/TAG/FILE` or `hf.co/OWNER/REPO/QUANT/FILE`, each with a manifest.

    A folder without a manifest is no model. Any number of processes may use the same store.
    """

    root: Path
    catalog: Catalog
    _seen: dict[Path, _Seen] = field(default_factory=dict[Path, _Seen], repr=False)

    def list(self) -> list[StoredModel]:
        """The installed models by name; what cannot be read is left out with a warning."""
        patterns = (f"*/*/{MANIFEST}", f"{HUB_HOST}/*/*/*/{MANIFEST}")
        paths = [path for pattern in patterns for path in self.root.glob(pattern)]
        found = (self._read(path.parent) for path in paths)
        return sorted((model for model in found if model), key=lambda model: model.name)

    def resolve(self, reference: str) -> StoredModel:
        """The installed model, or the file or folder, that `reference` means.

        Raises `ModelNotFound` with a hint how to get it, and for a path what `read_header`,
        `check_supported` and `read_folder` raise.
        """
        parsed = parse_reference(reference)
        if isinstance(parsed, PathReference):
            return self._at_path(parsed.path, reference)
        model = self._installed(parsed)
        if model is None:
            raise self._not_found(parsed)
        return model

    def pull(
        self,
        reference: str,
        on_progress: OnPullProgress = lambda progress: None,
        cancelled: Cancelled = lambda: False,
    ) -> StoredModel:
        """Fetch a model unless it is here already; blocks, so call it in a thread.

        Both callbacks are called in that thread. Raises `ModelNotFound`, and what `Download.run`
        raises.
        """
        parsed = parse_reference(reference)
        if isinstance(parsed, PathReference):
            return self._at_path(parsed.path, reference)
        if model := self._installed(parsed):
            return model
        PullReporter(str(parsed), None, on_progress).status("resolving")
        wanted = self._wanted(parsed)
        reporter = PullReporter(wanted.name, wanted.file.size, on_progress)
        try:
            with self._lock(wanted.name) as lock:
                self._wait_for(lock, reporter, cancelled)
                self._sweep()
                folder = self._folder(wanted.name)
                return self._read(folder) or self._fetch(wanted, folder, reporter, cancelled)
        except OSError as error:
            raise disk_failure(error, self.root) from error

    def remove(self, reference: str) -> int:
        """Remove a model, or what is left of an unfinished download; returns the bytes freed.

        Raises `ModelNotFound` where there is nothing of that name in the store, and `ModelInUse`
        while somebody fetches it.
        """
        name = self._name_to_remove(reference)
        with self.claim(name) as folder:
            freed = sum(_freed(path) for path in folder.rglob("*") if path.is_file())
            (folder / MANIFEST).unlink(missing_ok=True)  # first: from here on it is no model
            shutil.rmtree(folder)
        self._remove_empty(folder.parent)
        return freed

    @contextmanager
    def claim(self, name: str) -> Generator[Path]:
        """The folder of a model's full name, changed by nobody else meanwhile.

        Raises `ModelInUse`.
        """
        with self._lock(name) as lock:
            if not lock.try_acquire():
                raise ModelInUse(
                    f"{name} is being fetched right now.", hint="Cancel that first, or wait."
                )
            yield self._folder(name)

    def _fetch(
        self, wanted: _Wanted, folder: Path, reporter: PullReporter, cancelled: Cancelled
    ) -> StoredModel:
        folder.mkdir(parents=True, exist_ok=True)
        download = Download(wanted.name, folder, wanted.file, wanted.sources, reporter, cancelled)
        try:
            fetched = download.run()
            write_manifest(folder, _manifest(wanted, fetched))
        except ModelError:
            self._remove_empty(folder)
            raise
        return self._advised(read_manifest(folder / MANIFEST))

    def _wanted(self, parsed: CatalogReference | HubReference) -> _Wanted:
        if isinstance(parsed, CatalogReference):
            entry = self.catalog.find(str(parsed))
            if entry is None:
                raise self._not_found(parsed)
            file = RemoteFile(entry.file, entry.size, entry.sha256)
            sources = [_source(location) for location in entry.sources]
            return _Wanted(entry.full_name, file, sources, entry)
        from .sources.hub import HubSource, find_file, quantization_of

        repo = f"{parsed.owner}/{parsed.repo}"
        file = find_file(repo, parsed.quant)
        name = HubReference(parsed.owner, parsed.repo, quantization_of(file.name))
        return _Wanted(str(name), file, [HubSource(repo, file.name)])

    def _installed(self, parsed: CatalogReference | HubReference) -> StoredModel | None:
        name = str(parsed)
        if isinstance(parsed, CatalogReference):
            if entry := self.catalog.find(name):
                return self._read(self._folder(entry.full_name))
            complete = parsed.tag is not None
        else:
            complete = parsed.quant is not None
        if complete:
            model = self._read(self._folder(name))
            if model is not None or not name.lower().endswith(LATEST_TAG):
                return model
            name = name[: -len(LATEST_TAG)]
        elif model := self._read(self._folder(f"{name}{LATEST_TAG}")):
            return model
        # Without a tag the name is enough where only one model has it.
        same = [model for model in self.list() if model.name.rpartition(":")[0] == name]
        return same[0] if len(same) == 1 else None

    def _read(self, folder: Path) -> StoredModel | None:
        """The model of a folder, or None; says why in the log where a manifest is no good."""
        path = folder / MANIFEST
        try:
            model = read_manifest(path)
            if self._folder(model.name) != folder:
                raise ValueError(f"it belongs to {model.name!r}")
        except FileNotFoundError as error:
            if path.exists():
                logger.warning("Ignoring %s: %s", path, error)
            return None
        except (OSError, ValueError) as error:
            logger.warning("Ignoring %s: %s", path, error)
            return None
        return self._advised(model)

    def _advised(self, model: StoredModel) -> StoredModel:
        """The model with today's advice from the catalog, which may be newer than the manifest."""
        entry = self.catalog.find(model.name)
        if entry is None or entry.sha256 != model.sha256:
            return model
        return msgspec.structs.replace(
            model,
            licence=entry.licence,
            description=entry.description,
            chat=entry.chat,
            sampling=entry.sampling,
            chat_template=entry.chat_template,
            draft=entry.draft,
            dimensions=entry.dimensions,
        )

    def _at_path(self, path: Path, text: str) -> StoredModel:
        try:
            status = path.stat()
            stamp = _stamp(path, status)
        except (OSError, ValueError):
            hint = "Check the spelling."
            if text.count("/") == 1 and text[0] not in "./~":
                hint = f"For a repository on the hub write `{HUB_HOST}/{text}`."
            raise ModelNotFound(f"There is no file or folder {path}.", hint=hint) from None
        seen = self._seen.get(path)
        if seen is None or seen.stamp != stamp:
            seen = self._seen[path] = _Seen(stamp, _describe(path, status))
        return seen.model

    def _name_to_remove(self, reference: str) -> str:
        parsed = parse_reference(reference)
        if isinstance(parsed, PathReference):
            for model in self.list():
                if model.path == parsed.path:
                    return model.name
            raise ModelNotFound(
                f"{parsed.path} is not in ingle's store, so ingle does not remove it.",
                hint="Delete the file yourself if you no longer need it.",
            )
        if model := self._installed(parsed):
            return model.name
        entry = self.catalog.find(str(parsed))
        name = entry.full_name if entry else str(parsed)
        if ":" in name and any(self._folder(name).glob("*.gguf*")):
            return name  # an unfinished download
        raise ModelNotFound(
            f"There is no model called {str(parsed)!r} here.", hint="`ingle list` shows what is."
        )

    def _not_found(self, parsed: CatalogReference | HubReference) -> ModelNotFound:
        name = str(parsed)
        if isinstance(parsed, HubReference) or self.catalog.find(name):
            hint = f"`ingle pull {name}` fetches it."
        else:
            installed = [model.name for model in self.list()]
            near = [
                *difflib.get_close_matches(name, installed, n=3),
                *self.catalog.suggestions(name),
            ]
            words = " or ".join(f"`{word}`" for word in dict.fromkeys(near))
            hint = f"Did you mean {words}?" if near else "`ingle list` shows what there is."
        return ModelNotFound(f"There is no model called {name!r} here.", hint=hint)

    def _folder(self, name: str) -> Path:
        """Where a model lives; its name has passed `parse_reference` or the catalog's checks."""
        return self.root.joinpath(*name.replace(":", "/").split("/"))

    def _lock(self, name: str) -> FileLock:
        return FileLock(self.root / _LOCKS / (name.replace("/", "--").replace(":", "--") + ".lock"))

    def _wait_for(self, lock: FileLock, reporter: PullReporter, cancelled: Cancelled) -> None:
        waiting = False
        while not lock.try_acquire():
            if not waiting:
                reporter.status("waiting for another download")
            waiting = True
            raise_if_cancelled(cancelled)
            time.sleep(_POLL_SECONDS)

    def _sweep(self) -> None:
        """Remove the private folders of downloads, of any model, whose process was killed."""
        for pattern in (f"*/*/{SCRATCH_PREFIX}*", f"{HUB_HOST}/*/*/*/{SCRATCH_PREFIX}*"):
            for path in self.root.glob(pattern):
                *parents, tag, _ = path.relative_to(self.root).parts
                with self._lock(f"{'/'.join(parents)}:{tag}") as lock:
                    if lock.try_acquire():
                        shutil.rmtree(path, ignore_errors=True)

    def _remove_empty(self, folder: Path) -> None:
        """Remove the folder and its parents below the root as far as they are empty."""
        with suppress(OSError):  # not empty, gone already, or just taken by another download
            while folder != self.root:
                folder.rmdir()
                folder = folder.parent


def _freed(path: Path) -> int:
    """Bytes that go with a file: none where another model has it, too."""
    found = path.lstat()
    return found.st_size if found.st_nlink == 1 else 0


def _stamp(path: Path, status: os.stat_result) -> Stamp:
    if not stat.S_ISDIR(status.st_mode):
        return ((path.name, status.st_mtime_ns, status.st_size),)
    files: list[tuple[str, int, int]] = []
    for file in path.iterdir():
        with suppress(OSError):  # a dangling link; what needs it will say so
            found = file.stat()  # what a link leads to, as in the cache of the hub's own client
            files.append((file.name, found.st_mtime_ns, found.st_size))
    return tuple(sorted(files))


def _describe(path: Path, status: os.stat_result) -> StoredModel:
    """What lies at a path of somebody's own; raises `ModelError` where no engine can run it."""
    if not stat.S_ISDIR(status.st_mode):
        header = read_header(path)
        check_supported(header)
        return describe_file(path, header)
    if not is_model_folder(path):
        raise ModelNotFound(
            f"{path} is a folder without a model.",
            hint="Name a .gguf file, or a folder with safetensors and their config.json.",
        )
    return describe_folder(read_folder(path))


def _source(location: Location) -> Source:
    # What these import takes longer than the daemon may take to start, and most runs fetch nothing.
    if isinstance(location, HubLocation):
        from .sources.hub import HubSource

        return HubSource(location.repo, location.file)
    if isinstance(location, PackageIndexLocation):
        return PackageIndexSource(
            location.requirements,
            member=location.member,
            archived=location.archived,
            sdist_sha256=location.sdist_sha256,
        )
    from .sources.http import HTTPSource

    return HTTPSource(location.url)


def _manifest(wanted: _Wanted, fetched: Fetched) -> Manifest:
    file, entry = describe_file(fetched.path, fetched.header), wanted.entry
    return Manifest(
        name=wanted.name,
        file=fetched.path.name,
        size=file.size,
        sha256=fetched.sha256,
        licence=entry.licence if entry else file.licence,
        description=entry.description if entry else file.description,
        parameters=file.parameters,
        quantization=file.quantization,
        architecture=file.architecture,
        context=file.context,
        chat=entry.chat if entry else file.chat,
        sampling=entry.sampling if entry else {},
        source=fetched.source,
        task=file.task,
    )
