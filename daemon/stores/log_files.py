"""The daemon's log on disk: one file that is written, and the ones before it, all 0600."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LARGEST = 8 * 2**20
"""Bytes after which a new file begins."""
KEPT = 3
"""Files before the one that is written."""


def rotated(log: Path, number: int) -> Path:
    """The file that was the log so many times ago, from 1."""
    return log.with_name(f"{log.stem}.{number}{log.suffix}")


def rotate(log: Path) -> None:
    """Give the log the number 1 and all others the next; the oldest goes. Raises `OSError`."""
    rotated(log, KEPT).unlink(missing_ok=True)
    for number in range(KEPT - 1, 0, -1):
        with suppress(FileNotFoundError):
            rotated(log, number).rename(rotated(log, number + 1))
    log.rename(rotated(log, 1))


def open_log(log: Path) -> BinaryIO:
    """The log for appending, a new one where it is too large; raises `OSError`."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        if log.stat().st_size > LARGEST:
            rotate(log)
    file = os.fdopen(new_log(log), "ab")
    file.seek(0, os.SEEK_END)
    return file


def new_log(log: Path) -> int:
    """A descriptor of the log for appending; no link is followed. Raises `OSError`."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    fd = os.open(log, flags, 0o600)
    if hasattr(os, "fchmod"):
        os.fchmod(fd, 0o600)
    return fd
