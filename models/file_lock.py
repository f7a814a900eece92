"""A lock between processes that ends with the process that holds it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class FileLock:
    """Exclusive among processes and among threads; the kernel gives it back after a crash.

    The lock's file stays: removing it while somebody waits would let two hold "the" lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def try_acquire(self) -> bool:
        """Take the lock if nobody has it; True on success. Raises `OSError` where none can be."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            taken = lock_open_file(fd)
        except BaseException:
            os.close(fd)
            raise
        if taken:
            self._fd = fd
        else:
            os.close(fd)
        return taken

    def release(self) -> None:
        """Give the lock back; does nothing where it is not held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def lock_open_file(fd: int) -> bool:
    """Take the lock of an open file until it is closed; False where another has it.

    Raises `OSError` where there are no locks.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # what Unix and Windows say for "taken"
        return False
    return True
