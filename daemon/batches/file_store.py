"""Stores files that clients upload, and result files of batches."""

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

from ingle.models.durable_folder import make_durable_folder, sync_folder
from ingle.models.failpoints import failpoint
from ingle.models.struct_preparation import prepared

from ..errors import NotFound
from ..stores.durable_file import private_file, write_durably, writing_in

PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
BATCH_LIFETIME = 30 * 24 * 3600
_ABANDONED = 3600.0
_ID = re.compile(r"file-[0-9a-f]{24}")


class UploadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a file; times are Unix seconds."""

    id: str
    filename: str
    purpose: str
    bytes: int
    created_at: int
    expires_at: int | None = None


class FileStore:
    """A folder of files, each with a metadata file; blocking, safe in any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new_id(self) -> str:
        """Return an unused id."""
        return f"file-{secrets.token_hex(12)}"

    def begin(self) -> FileWriter:
        """Start a new file, which exists once it is committed; raises `storage_error`'s."""
        with writing_in(self._folder):
            make_durable_folder(self._folder, mode=0o700)
            _remove_old(self._folder.glob("*.part"))
            return FileWriter(self._folder / f"{self.new_id()}.part")

    def commit(
        self,
        content: Path,
        *,
        filename: str,
        purpose: str,
        lifetime: int | None,
        file_id: str | None = None,
    ) -> UploadedFile:
        """Add a complete file; idempotent for the same `file_id`. Raises `storage_error`'s."""
        file_id = file_id or self.new_id()
        with writing_in(self._folder):
            return self._commit(content, file_id, filename, purpose, lifetime)

    def _commit(
        self, content: Path, file_id: str, filename: str, purpose: str, lifetime: int | None
    ) -> UploadedFile:
        target = self._content(file_id)
        make_durable_folder(self._folder, mode=0o700)
        failpoint("files.commit")
        is_new, now = content.exists(), int(time.time())
        stored = UploadedFile(
            id=file_id,
            filename=filename,
            purpose=purpose,
            bytes=(content if is_new else target).stat().st_size,
            created_at=now,
            expires_at=None if lifetime is None else now + lifetime,
        )
        # The metadata first: alone it is not a file, while content alone would never be listed.
        write_durably(self._facts(file_id), msgspec.json.encode(stored))
        if is_new:
            content.replace(target)
            sync_folder(self._folder)
        return stored

    def get(self, file_id: str) -> UploadedFile:
        """Return one file's metadata; raises `NotFound`."""
        stored = self._read(file_id) if _ID.fullmatch(file_id) else None
        if stored is None:
            raise NotFound(
                f"There is no file '{file_id[:100]}'.",
                hint="`GET /v1/files` lists all.",
                param="file_id",
            )
        return stored

    def path(self, file_id: str) -> Path:
        """Return the path of a file's content; raises `NotFound`."""
        return self._content(self.get(file_id).id)

    def list(self) -> list[UploadedFile]:
        """Return all files, the newest first."""
        files = [self._read(path.stem) for path in self._folder.glob("file-*.json")]
        present = [stored for stored in files if stored is not None]
        return sorted(present, key=lambda stored: (-stored.created_at, stored.id))

    def delete(self, file_id: str) -> None:
        """Remove a file for good; raises `NotFound` and `storage_error`'s."""
        with writing_in(self._folder):
            self._remove(self.get(file_id).id)
            sync_folder(self._folder)

    def sweep(self) -> None:
        """Remove expired files and abandoned uploads."""
        self.list()  # which checks each, and removes expired ones
        _remove_old(self._folder.glob("*.part"))
        _remove_old(self._folder.glob(".file-*"))  # incomplete metadata
        facts = self._folder.glob("file-*.json")
        _remove_old(path for path in facts if not self._content(path.stem).exists())

    def _read(self, file_id: str) -> UploadedFile | None:
        """Return the metadata of a complete file; an expired one is removed."""
        try:
            stored = msgspec.json.decode(
                self._facts(file_id).read_bytes(), type=prepared(UploadedFile)
            )
        except (OSError, msgspec.DecodeError):
            return None
        if stored.expires_at is not None and time.time() >= stored.expires_at:
            self._remove(file_id)
            return None
        return stored if self._content(file_id).exists() else None

    def _remove(self, file_id: str) -> None:
        self._facts(file_id).unlink(missing_ok=True)
        self._content(file_id).unlink(missing_ok=True)

    def _facts(self, file_id: str) -> Path:
        return self._folder / f"{file_id}.json"

    def _content(self, file_id: str) -> Path:
        return self._folder / f"{file_id}.bin"


class FileWriter:
    """A file that is being written; it is deleted unless it is committed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._file: BufferedWriter = private_file(path)

    def write(self, data: bytes) -> None:
        """Append; raises `StorageFull`."""
        with writing_in(self.path.parent):
            failpoint("files.write")
            self._file.write(data)
        self.size += len(data)

    def finish(self) -> Path:
        """Return the path of the complete content, flushed to disk; raises `StorageFull`."""
        with writing_in(self.path.parent):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        return self.path

    def discard(self) -> None:
        """Remove it unless it was committed."""
        with suppress(OSError):  # closing may fail to write what is discarded here
            self._file.close()
        self.path.unlink(missing_ok=True)


def _remove_old(paths: Iterable[Path]) -> None:
    """Remove abandoned files; those being written were modified recently."""
    horizon = time.time() - _ABANDONED
    for path in paths:
        with suppress(OSError):  # it was removed concurrently
            if path.stat().st_mtime < horizon:
                path.unlink()
