"""A lock file that allows one daemon per home, and records its holder."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from ingle.models.file_lock import lock_open_file

from ..client.client_errors import UserError
from ..settings.paths import FolderUnusable, is_locked

_PATIENCE = 5.0
"""Seconds to wait for the lock of a daemon that has died."""


class LockHolder(msgspec.Struct, frozen=True):
    """The running daemon, and where it listens; `address` is None without TCP."""

    pid: int
    socket: str | None
    address: str | None


class AlreadyRunning(UserError):
    """Another daemon holds this home; `holder` is None while that one is still starting."""

    exit_status = 3

    def __init__(self, holder: LockHolder | None) -> None:
        self.holder = holder
        message = "Another ingle daemon is starting on this home."
        if holder is not None:
            places = " and ".join(place for place in (holder.socket, holder.address) if place)
            message = f"ingle is already running as process {holder.pid}, on {places}."
        super().__init__(
            message,
            "Use that one, end it with `ingle stop`, or set INGLE_HOME to run a second one.",
        )


class InstanceLock:
    """The lock file of a home, held from `acquire` until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock; raises `AlreadyRunning`, and `FolderUnusable` if it cannot be created."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            if is_locked(self._path):  # the folder became read-only while its daemon runs
                raise AlreadyRunning(read_holder(self._path)) from error
            raise FolderUnusable(self._path, error) from error
        deadline = time.monotonic() + _PATIENCE
        while not _try_lock(fd):
            holder = read_holder(self._path)
            # A child that a killed daemon was just starting holds its lock until it executes
            # another program.
            if holder is None or _lives(holder.pid) or time.monotonic() > deadline:
                os.close(fd)
                raise AlreadyRunning(holder)
            time.sleep(0.01)
        os.ftruncate(fd, 0)
        self._fd = fd

    def publish(self, holder: LockHolder) -> None:
        """Write where the daemon listens into the lock file, for processes that find it locked.

        Raises `FolderUnusable`.
        """
        assert self._fd is not None
        try:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, msgspec.json.encode(holder))
        except OSError as error:
            raise FolderUnusable(self._path, error) from error

    def release(self) -> None:
        """Release the lock; the file stays, since removing it would allow two holders."""
        if self._fd is None:
            return
        os.ftruncate(self._fd, 0)
        os.close(self._fd)
        self._fd = None


def read_holder(path: Path) -> LockHolder | None:
    """Return the holder recorded in the lock file; None if there is none yet."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=LockHolder)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _try_lock(fd: int) -> bool:
    try:
        if sys.platform == "win32":
            # Windows locks keep other processes from reading, so the locked byte lies after the
            # text.
            os.lseek(fd, 2**20, os.SEEK_SET)
        return lock_open_file(fd)
    except OSError:
        return False


def _lives(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
