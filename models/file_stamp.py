"""Detect whether a file has changed since it was read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec


class FileStamp(msgspec.Struct, frozen=True, array_like=True):
    """A file's path, size, modification time in nanoseconds, and inode."""

    path: str
    size: int
    changed_at: int
    number: int

    @classmethod
    def of(cls, path: Path, status: os.stat_result) -> FileStamp:
        """The stamp of a file with this `status`, best from its open descriptor."""
        return cls(str(path), status.st_size, status.st_mtime_ns, status.st_ino)

    @classmethod
    def find(cls, path: Path) -> FileStamp | None:
        """The stamp of the file at this path; None if there is none."""
        try:
            return cls.of(path, path.stat())
        except OSError:
            return None

    @property
    def holds(self) -> bool:
        """Whether the file still exists, the same and unchanged."""
        return FileStamp.find(Path(self.path)) == self


def first_changed(stamps: Iterable[FileStamp]) -> str | None:
    """The path of the first file that has changed, or None."""
    return next((stamp.path for stamp in stamps if not stamp.holds), None)
