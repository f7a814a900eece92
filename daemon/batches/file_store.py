"""The files clients leave with the daemon, and those that batches leave for them."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path

import msgspec

from ingle.models.failpoints import failpoint
from ingle.models.sources.partial_file import sync_folder

from ..errors import NotFound
from ..stores.durable_file import private_file, storage_error, write_durably

PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
BATCH_LIFETIME = 30 * 24 * 3600
_ABANDONED = 3600.0
_ID = re.compile(r"file-[0-9a-f]{24}")


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a file; times are Unix seconds."""

    id: str
    filename: str
    purpose: str
    bytes: int
    created_at: int
    expires_at: int | None = None

    @property
    def expired(self) -> bool:
        """Whether nobody may have it any more."""
        return self.expires_at is not None and time.time() >= self.expires_at


class FileStore:
    """A folder of files, each with its facts beside it; blocking, for any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new_id(self) -> str:
        """An id that no file has."""
        return f"file-{secrets.token_hex(12)}"

    def begin(self) -> FileWriter:
        """Write a new file; it is there once it is committed."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._sweep()
        return FileWriter(self._folder / f"{self.new_id()}.part")

    def commit(
        self,
        content: Path,
        *,
        filename: str,
        purpose: str,
        lifetime: int | None,
        file_id: str | None = None,
    ) -> StoredFile:
        """Take over a whole file; doing so twice with one `file_id` is the same as once."""
        file_id = file_id or self.new_id()
        target = self._content(file_id)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        failpoint("files.commit")
        is_new, now = content.exists(), int(time.time())
        stored = StoredFile(
            id=file_id,
            filename=filename,
            purpose=purpose,
            bytes=(content if is_new else target).stat().st_size,
            created_at=now,
            expires_at=None if lifetime is None else now + lifetime,
        )
        # The facts first: alone they are no file, where content alone would be in nobody's list.
        write_durably(self._facts(file_id), msgspec.json.encode(stored))
        if is_new:
            content.replace(target)
            sync_folder(self._folder)
        return stored

    def get(self, file_id: str) -> StoredFile:
        """One file's facts; raises `NotFound`."""
        stored = self._read(file_id) if _ID.fullmatch(file_id) else None
        if stored is None:
            raise NotFound(
                f"There is no file '{file_id[:100]}'.",
                hint="`GET /v1/files` lists all.",
                param="file_id",
            )
        return stored

    def path(self, file_id: str) -> Path:
        """Where a file's content lies; raises `NotFound`."""
        return self._content(self.get(file_id).id)

    def list(self) -> list[StoredFile]:
        """All files, the newest first."""
        files = [self._read(path.stem) for path in self._folder.glob("file-*.json")]
        present = [stored for stored in files if stored is not None]
        return sorted(present, key=lambda stored: (-stored.created_at, stored.id))

    def delete(self, file_id: str) -> None:
        """Remove a file; raises `NotFound`."""
        self._remove(self.get(file_id).id)

    def sweep(self) -> None:
        """Remove the files whose time is over, and what was never finished."""
        self.list()  # which looks at each, and lets those go
        self._sweep()
        _remove_old(self._folder.glob(".file-*"))  # facts that were not whole yet
        facts = self._folder.glob("file-*.json")
        _remove_old(path for path in facts if not self._content(path.stem).exists())

    def _read(self, file_id: str) -> StoredFile | None:
        """The facts of a file that is whole; one whose time is over goes."""
        try:
            stored = msgspec.json.decode(self._facts(file_id).read_bytes(), type=StoredFile)
        except (OSError, msgspec.DecodeError):
            return None
        if stored.expired:
            self._remove(file_id)
            return None
        return stored if self._content(file_id).exists() else None

    def _sweep(self) -> None:
        """Remove uploads that were never finished."""
        _remove_old(self._folder.glob("*.part"))

    def _remove(self, file_id: str) -> None:
        self._facts(file_id).unlink(missing_ok=True)
        self._content(file_id).unlink(missing_ok=True)

    def _facts(self, file_id: str) -> Path:
        return self._folder / f"{file_id}.json"

    def _content(self, file_id: str) -> Path:
        return self._folder / f"{file_id}.bin"


class FileWriter:
    """A file on its way in; it vanishes unless it is committed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._file: BufferedWriter = private_file(path)

    def write(self, data: bytes) -> None:
        """Append; raises `StorageFull`."""
        try:
            failpoint("files.write")
            self._file.write(data)
        except OSError as error:
            raise storage_error(error, self.path.parent) from error
        self.size += len(data)

    def finish(self) -> Path:
        """Where the whole content lies, safely on disk; raises `StorageFull`."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise storage_error(error, self.path.parent) from error
        return self.path

    def discard(self) -> None:
        """Remove what was not committed."""
        with suppress(OSError):  # closing may fail to write what is thrown away here
            self._file.close()
        self.path.unlink(missing_ok=True)


def _remove_old(paths: Iterable[Path]) -> None:
    """Remove what was never finished; what is being written has changed a moment ago."""
    horizon = time.time() - _ABANDONED
    for path in paths:
        with suppress(OSError):  # somebody else removed it first
            if path.stat().st_mtime < horizon:
                path.unlink()
