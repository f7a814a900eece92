"""The folder in which the packages of engines are installed, one folder an engine and version."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from ingle.models.durable_folder import sync_disks
from ingle.models.file_lock import FileLock
from ingle.models.json_cache import read_json_cache

from .engine_packages import EnginePackages, abi, all_engine_packages

_RECORD = "installed.json"
_NEW = ".new-"


class InstalledPackages(msgspec.Struct, frozen=True, kw_only=True):
    """What an installation consists of; it is complete if it has this record."""

    name: str
    requirements: list[str]
    abi: str
    bytes: int
    installed_at: float


class EngineStore:
    """The installed engines below one folder; safe in several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, name: str) -> Path | None:
        """Return the folder of packages of this name; None if it is not installed.

        The pinned versions are preferred; others that this Python can import are used until those
        are installed.
        """
        packages = all_engine_packages()[name]
        pinned = self.target(packages)
        if (pinned / _RECORD).exists():
            return pinned
        usable = [path for path, record in self._installed(name) if record.abi == abi()]
        return usable[-1] if usable else None

    def record(self, name: str) -> InstalledPackages | None:
        """Return what is installed under this name; None if nothing is."""
        folder = self.find(name)
        return None if folder is None else read_json_cache(folder / _RECORD, InstalledPackages)

    def is_current(self, name: str) -> bool:
        """Whether the pinned versions are installed."""
        return (self.target(all_engine_packages()[name]) / _RECORD).exists()

    def of_engine(self, engine: str) -> EnginePackages | None:
        """Return the preferred installed packages of this engine; None if it has none here."""
        return next(
            (
                packages
                for packages in all_engine_packages().values()
                if packages.engine == engine and self.find(packages.name) is not None
            ),
            None,
        )

    def import_path(self, engines: Iterable[str]) -> list[str]:
        """Return the folders from which the packages of these engines are imported."""
        installed = (self.of_engine(engine) for engine in engines)
        folders = (self.find(packages.name) for packages in installed if packages is not None)
        return [str(folder) for folder in folders if folder is not None]

    def target(self, packages: EnginePackages) -> Path:
        """Return the folder of the pinned versions, installed or not."""
        return self.folder / packages.name / packages.digest()

    def lock(self, name: str) -> FileLock:
        """Return the lock that an installation of this name holds."""
        return FileLock(self.folder / f".{name}.lock")

    def begin(self, packages: EnginePackages) -> Path:
        """Return an empty folder to install into; leftovers of killed installations are removed."""
        parent = self.folder / packages.name
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.glob(f"{_NEW}*"):
            shutil.rmtree(left, ignore_errors=True)
        folder = parent / f"{_NEW}{os.getpid()}"
        folder.mkdir()
        return folder

    def commit(self, packages: EnginePackages, new: Path) -> InstalledPackages:
        """Make the folder `new` the installation in one step, once its files are on the disk."""
        record = InstalledPackages(
            name=packages.name,
            requirements=packages.pinned(),
            abi=abi(),
            bytes=folder_bytes(new),
            installed_at=time.time(),
        )
        (new / _RECORD).write_bytes(msgspec.json.encode(record))
        target = self.target(packages)
        if target.exists():  # without a record: incomplete
            shutil.rmtree(target)
        sync_disks()
        new.rename(target)
        return record

    def remove(self, name: str) -> int:
        """Remove all versions of these packages; returns the bytes freed."""
        freed = sum(record.bytes for _, record in self._installed(name))
        for path, _ in self._installed(name):
            with suppress(OSError):
                (path / _RECORD).unlink()  # incomplete from here on, even if this is interrupted
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return freed

    def remove_replaced(self) -> None:
        """Remove the versions that pinned ones replace; call it if no process uses them."""
        for name in filter(self.is_current, all_engine_packages()):
            for path, _ in self._installed(name):
                if path != self.find(name):
                    shutil.rmtree(path, ignore_errors=True)

    def _installed(self, name: str) -> list[tuple[Path, InstalledPackages]]:
        """Return the complete installations of this name, the oldest first."""
        found = [
            (path.parent, record)
            for path in self.folder.glob(f"{name}/*/{_RECORD}")
            if not path.parent.name.startswith(_NEW)
            and (record := read_json_cache(path, InstalledPackages)) is not None
        ]
        return sorted(found, key=lambda each: each[1].installed_at)


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below the folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
