"""A pull: bring a wanted model into the store, linked to a file that is here or downloaded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..download.file_download import Fetched
from ..download.local_duplicates import find_local_duplicate
from ..download.model_download import WantedModel, fetch_model, manifest_of
from ..download.pull_progress import PullReporter
from ..durable_folder import make_durable_folder
from ..errors import ModelError
from ..file_lock import FileLock
from ..metadata.digest_cache import DigestCache
from ..metadata.manifest import Manifest, in_place_manifest, read_manifest, write_manifest
from ..metadata.stored_model import StoredModel
from ..sources.partial_file import disk_failure
from .store_folder import StoreFolder

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ModelPull:
    """One pull into a store; `local` lists the models on this machine."""

    wanted: WantedModel
    folders: StoreFolder
    local: Callable[[], Sequence[StoredModel]]
    digests: DigestCache
    reporter: PullReporter

    def run(self, check_online: Callable[[str], None]) -> StoredModel:
        """The model, once it is installed; waits for another process that pulls it.

        `check_online` raises `Offline` if nothing may be downloaded. Raises what `FileDownload.run`
        raises.
        """
        name, folders = self.wanted.name, self.folders
        folder = folders.path(name)
        try:
            with folders.lock(name) as lock:
                self._wait_for(lock)
                folders.sweep()
                if model := folders.read(folder):
                    return model
                manifest = self._linked(folder)
                if manifest is None:
                    check_online(name)
                    manifest = self._downloaded(folder)
                write_manifest(folder, manifest)
                return read_manifest(folder)
        except OSError as error:
            raise disk_failure(error, folders.root) from error

    def _wait_for(self, lock: FileLock) -> None:
        waiting = False
        while not lock.try_acquire():
            if not waiting:
                self.reporter.status("waiting for another download")
            waiting = True
            self.reporter.check_cancelled()
            time.sleep(_POLL_SECONDS)

    def _linked(self, folder: Path) -> Manifest | None:
        """The model, made from the same file under another name; None if there is none.

        Files of other programs are used in place. Files of the store get a second link, so that
        either model can be removed without the other.
        """
        wanted, file = self.wanted, self.wanted.files[0].file
        twin = find_local_duplicate(wanted, self.local(), self.digests, self.reporter)
        if twin is None:
            return None
        make_durable_folder(folder)
        if twin.place:
            return in_place_manifest(wanted.name, twin, file.sha256 or "")
        path = folder / file.name
        path.unlink(missing_ok=True)
        try:
            os.link(twin.path, path)
        except OSError:  # another disk, or one without such links
            return None
        return manifest_of(wanted, folder, [Fetched(path, file.sha256 or "", twin.source)])

    def _downloaded(self, folder: Path) -> Manifest:
        make_durable_folder(folder)
        try:
            return fetch_model(self.wanted, folder, self.reporter)
        except ModelError:
            self.folders.remove_empty(folder)
            raise
