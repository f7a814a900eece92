"""The folder of the model store: a folder for each model with its manifest, and the locks."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ..catalog import HUB_HOST
from ..errors import ModelInUse
from ..file_lock import FileLock
from ..metadata.manifest import MANIFEST, read_manifest
from ..metadata.stored_model import StoredModel
from ..sources.partial_file import PARTIAL_SUFFIX, SCRATCH_PREFIX

logger = logging.getLogger(__name__)

_LOCKS = ".locks"
_MODELS = ("*/*", f"{HUB_HOST}/*/*/*")


class StoreFolder(msgspec.Struct, frozen=True):
    """Folders `NAME/TAG` or `hf.co/OWNER/REPO/QUANT`; one without a manifest is no model."""

    root: Path

    def path(self, name: str) -> Path:
        """The folder of a model; its name has passed `parse_reference` or the catalog's checks."""
        return self.root.joinpath(*name.replace(":", "/").split("/"))

    def models(self) -> list[StoredModel]:
        """The installed models by name; unreadable ones are left out with a warning."""
        paths = [path for pattern in _MODELS for path in self.root.glob(f"{pattern}/{MANIFEST}")]
        found = (self.read(path.parent) for path in paths)
        return sorted((model for model in found if model), key=lambda model: model.name)

    def read(self, folder: Path) -> StoredModel | None:
        """The model of a folder, or None; logs why a manifest is invalid."""
        path = folder / MANIFEST
        try:
            model = read_manifest(folder)
            if self.path(model.name) != folder:
                raise ValueError(f"it belongs to {model.name!r}")
        except (OSError, ValueError) as error:
            if path.exists() or not isinstance(error, FileNotFoundError):
                logger.warning("Ignoring %s: %s", path, error)
            return None
        return model

    def unfinished(self) -> dict[str, int]:
        """The bytes that stopped and running downloads have left, by the model's name."""
        found: dict[str, int] = {}
        for pattern in _MODELS:
            for path in self.root.glob(f"{pattern}/*{PARTIAL_SUFFIX}"):
                *parents, tag, _ = path.relative_to(self.root).parts
                if not (path.parent / MANIFEST).exists():
                    name = f"{'/'.join(parents)}:{tag}"
                    with suppress(OSError):  # it was completed or removed just now
                        found[name] = found.get(name, 0) + path.stat().st_size
        return found

    def lock(self, name: str) -> FileLock:
        """The lock of a model's folder, not taken yet."""
        return FileLock(self.root / _LOCKS / (name.replace("/", "--").replace(":", "--") + ".lock"))

    @contextmanager
    def claim(self, name: str) -> Generator[Path]:
        """Lock the folder of a model's full name; raises `ModelInUse`."""
        with self.lock(name) as lock:
            if not lock.try_acquire():
                raise ModelInUse(
                    f"{name} is being fetched right now.", hint="Cancel that first, or wait."
                )
            yield self.path(name)

    def sweep(self) -> None:
        """Remove the private folders of downloads whose process was killed."""
        for pattern in _MODELS:
            for path in self.root.glob(f"{pattern}/{SCRATCH_PREFIX}*"):
                *parents, tag, _ = path.relative_to(self.root).parts
                with self.lock(f"{'/'.join(parents)}:{tag}") as lock:
                    if lock.try_acquire():
                        shutil.rmtree(path, ignore_errors=True)

    def remove_empty(self, folder: Path) -> None:
        """Remove the folder and its parents below the root as far as they are empty."""
        with suppress(OSError):  # not empty, gone already, or just taken by another download
            while folder != self.root:
                folder.rmdir()
                folder = folder.parent
