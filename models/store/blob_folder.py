"""Uploaded files that may become models, named by their SHA-256."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ..durable_folder import make_durable_folder, sync_folder
from ..errors import DiskFull, HashMismatch, UnusableName
from ..sources.partial_file import disk_failure

_DIGEST = re.compile(r"(?:sha256[:-])?([0-9a-f]{64})")
_KEPT_FREE = 256 * 2**20
"""Bytes that an upload leaves on the disk."""
_ABANDONED = 24 * 3600.0


class BlobFolder:
    """A folder of uploads; unused ones are removed after a day."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, digest: str) -> Path | None:
        """The complete file with this `sha256:` digest.

        Raises `UnusableName` for an invalid one.
        """
        path = self.folder / checked_digest(digest)
        return path if path.is_file() else None

    @contextmanager
    def receive(self, digest: str, size: int | None) -> Generator[BlobWriter]:
        """A writer for the file, which is removed unless it is finished.

        `size` is its length, if known. Raises `UnusableName` and `DiskFull`.
        """
        wanted = checked_digest(digest)
        try:
            make_durable_folder(self.folder)
            self._sweep()
            writer = BlobWriter(self.folder, wanted, size)
        except OSError as error:
            raise disk_failure(error, self.folder) from error
        try:
            yield writer
        finally:
            writer.close()

    def _sweep(self) -> None:
        limit = time.time() - _ABANDONED
        for path in self.folder.iterdir():
            with suppress(OSError):  # another process removed it first
                if path.stat().st_mtime < limit:
                    path.unlink()


class BlobWriter:
    """One upload."""

    def __init__(self, folder: Path, wanted: str, size: int | None) -> None:
        self._folder = folder
        self._wanted = wanted
        self._hash = hashlib.sha256()
        self._path = folder / f"{wanted}.{secrets.token_hex(8)}.part"
        self._file: BinaryIO = self._path.open("wb")
        try:
            self._check_room(size or 0)
        except BaseException:
            self.close()
            raise

    def write(self, data: bytes) -> None:
        """Append; raises `DiskFull`."""
        try:
            self._check_room(len(data))
            self._file.write(data)
        except OSError as error:
            raise disk_failure(error, self._folder) from error
        self._hash.update(data)

    def finish(self) -> Path:
        """Make the file visible and durable; raises `HashMismatch` if its digest is another one."""
        found = self._hash.hexdigest()
        if found != self._wanted:
            raise HashMismatch(
                f"digest mismatch, expected sha256:{self._wanted}, got sha256:{found}.",
                hint="Send the file again.",
            )
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            target = self._folder / self._wanted
            self._path.replace(target)
            sync_folder(self._folder)
        except OSError as error:
            raise disk_failure(error, self._folder) from error
        return target

    def close(self) -> None:
        """Remove the file unless it was finished."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _check_room(self, wanted: int) -> None:
        if shutil.disk_usage(self._folder).free - wanted < _KEPT_FREE:
            raise DiskFull(
                f"The disk is full: {self._folder} has no room for the rest of the file.",
                hint="Free some space and send it again.",
            )


def checked_digest(digest: str) -> str:
    """The 64 hexadecimal digits of a `sha256:` digest; raises `UnusableName`."""
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise UnusableName(
            f"{digest[:80]!r} is not a digest.",
            hint="Write sha256: and 64 hexadecimal digits in lower case.",
        )
    return match[1]
