"""Folders whose entries survive a power cut."""

from __future__ import annotations

import errno
import os
from itertools import takewhile
from pathlib import Path

_NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP)
_durable: set[Path] = set()
"""Folders that this process has synced."""


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, if it is readable and the file system can do so.

    Raises `OSError`.
    """
    if os.name == "nt":
        return
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    finally:
        os.close(fd)


def sync_disks() -> None:
    """Put everything that was written on the disks, where the system can; takes seconds."""
    if hasattr(os, "sync"):
        os.sync()


def make_durable_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Create a folder and its parents unless they exist, on the disk when this returns.

    `mode` is that of the folder itself. Raises `OSError`.
    """
    if folder in _durable and folder.is_dir():
        return
    missing = list(takewhile(lambda path: not path.exists(), (folder, *folder.parents)))
    there = missing[-1].parent if missing else folder
    # A killed process, or a failed call, may have left this one without its sync.
    sync_folder(there.parent)
    for path in reversed(missing):
        path.mkdir(mode=mode if path == folder else 0o777, exist_ok=True)
        sync_folder(path.parent)
    _durable.add(folder)
