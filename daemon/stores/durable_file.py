"""Atomic and durable writes of small private files."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path

from ingle.models.durable_folder import make_durable_folder

from ..errors import RequestError, StorageFull, StorageUnusable
from .atomic_file import write_atomically

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_durably(path: Path, content: bytes) -> None:
    """Replace the file in one step, readable by its owner only; raises `storage_error`'s."""
    with writing_in(path.parent):
        make_durable_folder(path.parent, mode=0o700)
        write_atomically(path, content)


@contextmanager
def writing_in(folder: Path) -> Generator[None]:
    """Turn an `OSError` in the block into `StorageFull` or `StorageUnusable`."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, folder) from error


def private_file(path: Path) -> BufferedWriter:
    """Open a new file for writing bytes that only its owner may read."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def storage_error(error: OSError, folder: Path) -> RequestError:
    """Return `StorageFull` if the disk is full, else `StorageUnusable`."""
    if error.errno not in _NO_ROOM:
        wanted = "Check the disk" if error.errno == errno.EIO else "Make the folder writable"
        return StorageUnusable(
            f"{folder} cannot be written: {error.strerror or error}.",
            hint=f"{wanted}, and try again; `ingle doctor` checks it.",
        )
    return StorageFull(
        f"No space is left in {folder}.", hint="Free some space on that disk, and try again."
    )
