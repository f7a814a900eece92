"""`FolderLock`: many programs may have the chats of a folder open, or one has them to itself."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from .private_file import make_private

if TYPE_CHECKING:
    from sqlite3 import Connection

NAME = "history.lock"
PATIENCE = 5.0
"""Seconds to wait for the program that has the chats to itself."""


class FolderLock:
    """A lock between programs, which ends with the program that holds it.

    It is SQLite's own lock, on an empty database beside the chats: the same on every system, where
    the systems' own locks differ. May be used from any thread.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._connection: Connection | None = None
        self._mutex = threading.Lock()

    def share(self) -> None:
        """Be one of those that have the chats open; raises SQLite's error where one is alone."""
        with self._mutex:
            if self._connection is None:
                connection = self._connect()
                try:
                    connection.execute(f"PRAGMA busy_timeout = {int(PATIENCE * 1000)}")
                    connection.execute("BEGIN")
                    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                except BaseException:
                    connection.close()
                    raise
                self._connection = connection

    def take(self) -> bool:
        """Have the chats alone, in place of sharing them; False where others have them open."""
        import sqlite3

        self.release()
        with self._mutex:
            connection = self._connect()
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                connection.close()
                if "locked" in str(error):
                    return False
                raise
            self._connection = connection
            return True

    def release(self) -> None:
        """Neither share nor have them any longer."""
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connect(self) -> Connection:
        import sqlite3

        make_private(self._path)
        return sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
