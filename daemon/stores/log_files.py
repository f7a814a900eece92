"""The daemon's log files: the current one and its predecessors, all 0600."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LARGEST = 8 * 2**20
"""Size in bytes after which a new file is started."""
KEPT = 3
"""Number of older files that are kept."""


def rotated(log: Path, number: int) -> Path:
    """Return the path of the log file rotated out `number` times ago, from 1."""
    return log.with_name(f"{log.stem}.{number}{log.suffix}")


def rotate(log: Path) -> None:
    """Number the log 1 and increment the older ones, deleting the oldest; raises `OSError`."""
    rotated(log, KEPT).unlink(missing_ok=True)
    for number in range(KEPT - 1, 0, -1):
        with suppress(FileNotFoundError):
            rotated(log, number).rename(rotated(log, number + 1))
    log.rename(rotated(log, 1))


def open_log(log: Path) -> BinaryIO:
    """Open the log for appending, rotated first if it is too large; raises `OSError`."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        if log.stat().st_size > LARGEST:
            rotate(log)
    file = os.fdopen(new_log(log), "ab")
    file.seek(0, os.SEEK_END)
    return file


def new_log(log: Path) -> int:
    """Return a descriptor of the log for appending; links are not followed. Raises `OSError`."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    fd = os.open(log, flags, 0o600)
    if hasattr(os, "fchmod"):
        os.fchmod(fd, 0o600)
    return fd
