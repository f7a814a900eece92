"""The file that a download grows, and the notes that let a later attempt continue it."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from ..durable_folder import sync_folder
from ..errors import DiskFull, DiskUnusable
from ..failpoints import failpoint
from ..json_cache import read_json_cache

PARTIAL_SUFFIX = ".partial"
SCRATCH_PREFIX = ".fetch-"
"""First characters of a folder in which a source unpacks what it fetches."""
_CHUNK = 1 << 20
_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_NO_ROOM = frozenset(
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name)
)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT)


class PartialNotes(msgspec.Struct):
    """Where the bytes came from: an address with its validator, or parts by their sizes."""

    origin: str | None = None
    validator: str | None = None
    parts: list[int] = []


class PartialFile:
    """A file opened for appending, kept on disk between attempts together with its notes.

    As a context manager it closes the file at the end, and removes it where it is still empty.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file; raises `DiskFull` or `DiskUnusable`."""
        self.path = path
        self._notes_path = path.with_name(path.name + ".json")
        # Without notes, only a known digest lets a download continue.
        self.notes = read_json_cache(self._notes_path, PartialNotes) or PartialNotes()
        try:
            self._fd = os.open(path, _OPEN_FLAGS, 0o644)
            self.size = os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            raise self.failure(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0 and self.size == 0:
            self.discard()
        self.close()

    def append(self, data: bytes) -> None:
        """Write behind what is there; raises `DiskFull` or `DiskUnusable`."""
        view = memoryview(data)
        try:
            while view:
                failpoint("pull.write")
                written = os.write(self._fd, view)
                self.size += written
                view = view[written:]
        except OSError as error:
            raise self.failure(error) from error

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(self._fd, size)
        self.size = os.lseek(self._fd, 0, os.SEEK_END)

    def restart(self) -> None:
        """Discard all received bytes, and the notes."""
        self.truncate(0)
        self.notes = PartialNotes()
        self.save_notes()

    def save_notes(self) -> None:
        """Put the notes on disk, whole or not at all."""
        temporary = self._notes_path.with_name(self._notes_path.name + ".tmp")
        try:
            temporary.write_bytes(msgspec.json.encode(self.notes))
            temporary.replace(self._notes_path)
        except OSError as error:
            raise self.failure(error) from error

    def sha256(self, on_progress: Callable[[int], None]) -> str:
        """The digest of the whole file, as it is read back from disk."""
        return hash_file(self.path, on_progress)

    def publish(self, target: Path) -> None:
        """Make the file durable under its final name; the notes are gone afterwards."""
        try:
            failpoint("pull.sync")
            os.fsync(self._fd)
            self.close()  # Windows renames no open file
            failpoint("pull.rename")
            self.path.replace(target)
            self._notes_path.unlink(missing_ok=True)
            sync_folder(target.parent)
        except OSError as error:
            raise self.failure(error) from error

    def discard(self) -> None:
        """Remove the file and its notes."""
        self.close()
        for path in (self.path, self._notes_path):
            path.unlink(missing_ok=True)
            path.with_name(path.name + ".tmp").unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and leave it; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def failure(self, error: OSError) -> DiskFull | DiskUnusable:
        """The error of the operating system in words for people."""
        return disk_failure(error, self.path.parent)


def hash_file(path: Path, on_progress: Callable[[int], None]) -> str:
    """The SHA-256 of a file in hexadecimal digits; `on_progress` gets the bytes read so far."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while data := file.read(_CHUNK):
            digest.update(data)
            on_progress(file.tell())
    return digest.hexdigest()


def disk_failure(error: OSError, folder: Path) -> DiskFull | DiskUnusable:
    """`DiskFull` where that is what `error` means, else a `DiskUnusable` with the reason."""
    if error.errno in _NO_ROOM:
        return DiskFull(
            f"The disk is full: {folder} has no room for the rest of the file.",
            hint="Free some space and try again, or set INGLE_HOME to a larger disk.",
        )
    checked = "the folder's permissions" if error.errno in _NOT_ALLOWED else "the disk"
    return DiskUnusable(
        f"The file cannot be written in {folder}: {error.strerror or error}.",
        hint=f"Check {checked}, or set INGLE_HOME to another one.",
    )
