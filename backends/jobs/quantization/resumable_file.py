"""A file written tensor by tensor, which can be resumed after an interruption."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from ingle.models.file_lock import lock_open_file

from .arrays import Raw


class _Journal(msgspec.Struct, frozen=True):
    """Identity of an unfinished file, and how many of its tensors are written."""

    recipe: str
    tensors: int


class ResumableFile:
    """Writes `NAME.part` beside the final file, with a journal; both are gone once it is
    finished.
    """

    def __init__(self, path: Path, header: bytes, sizes: Sequence[int], recipe: str) -> None:
        """Resume an existing file if it was begun with the same `recipe` and header.

        `sizes` are the bytes of each tensor, padding included.

        Raises `OSError`, as all methods may, and `BlockingIOError` while another process writes it.
        """
        self._path = path
        self.part = path.with_name(f"{path.name}.part")
        self._journal = path.with_name(f"{path.name}.part.json")
        self._recipe = hashlib.sha256(recipe.encode() + b"\0" + header).hexdigest()
        ends = [len(header)]
        for size in sizes:
            ends.append(ends[-1] + size)
        self._ends = ends
        self._file = self._open_locked()
        self.done = min(self._read_journal(), len(sizes))
        if os.fstat(self._file.fileno()).st_size < ends[self.done]:
            self.done = 0
        if not self.done:
            self._file.truncate(0)
            self._file.write(header)
        self._file.truncate(ends[-1])
        self._file.seek(ends[self.done])

    @property
    def bytes_left(self) -> int:
        """Return the bytes still to be written."""
        return self._ends[-1] - self._ends[self.done]

    def append(self, data: Raw) -> None:
        """Append the next tensor, durably."""
        self._file.write(data.data)
        self.done += 1
        self._file.seek(self._ends[self.done])
        self._file.flush()
        os.fdatasync(self._file.fileno())
        journal = msgspec.json.encode(_Journal(self._recipe, self.done))
        temporary = self._journal.with_name(f"{self._journal.name}.new")
        temporary.write_bytes(journal)
        temporary.replace(self._journal)

    def finish(self) -> None:
        """Rename the file to its final name."""
        os.fsync(self._file.fileno())
        if sys.platform == "win32":  # Windows cannot rename open files
            self._file.close()
        self.part.replace(self._path)
        self._journal.unlink(missing_ok=True)
        self._file.close()

    def discard(self) -> None:
        """Delete the partial file and its journal."""
        if sys.platform == "win32":
            self._file.close()
        self._journal.unlink(missing_ok=True)
        self.part.unlink(missing_ok=True)
        self._file.close()

    def close(self) -> None:
        """Close the file so that it can be resumed."""
        self._file.close()

    def _open_locked(self) -> IO[bytes]:
        """Open and lock the file until it is closed: two writers would mix their tensors."""
        self.part.touch()
        file = self.part.open("r+b")
        try:
            # A writer that has just finished renamed the file that we opened.
            if lock_open_file(file.fileno()) and os.path.samestat(
                os.fstat(file.fileno()), self.part.stat()
            ):
                return file
            raise BlockingIOError(errno.EAGAIN, "another process is writing it")
        except BaseException:
            file.close()
            raise

    def _read_journal(self) -> int:
        try:
            journal = msgspec.json.decode(self._journal.read_bytes(), type=_Journal)
        except (OSError, msgspec.MsgspecError):
            return 0
        return journal.tensors if journal.recipe == self._recipe else 0
