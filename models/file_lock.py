"""A lock between processes, released by the kernel when its process ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Self

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class FileLock:
    """A lock that excludes other processes and threads, released after a crash.

    The lock file stays: if it were removed while a process waits, two could hold the lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def try_acquire(self) -> bool:
        """Take the lock if it is free; True on success.

        Raises `OSError` if locks are unsupported.
        """
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
        """Release the lock; does nothing if it is not held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_open_file(fd: int) -> bool:
    """Lock an open file until it is closed; False if another process holds the lock.

    Raises `OSError` if locks are unsupported.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # errors of Unix and Windows for a lock that is held
        return False
    return True
