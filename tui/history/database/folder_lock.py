"""Lock on the chat folder between programs: shared, or exclusive for conversions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from .private_file import make_private

if TYPE_CHECKING:
    from sqlite3 import Connection

NAME = "history.lock"
PATIENCE = 5.0
"""Seconds to wait for a program that holds the lock exclusively."""


class FolderLock:
    """A lock between programs, released when its holder ends.

    It is SQLite's own lock, on an empty database beside the chats: the same on every system, unlike
    the systems' own locks. May be used from any thread.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._connection: Connection | None = None
        self._mutex = threading.Lock()

    def share(self) -> None:
        """Take the lock shared; raises SQLite's error while another program holds it
        exclusively.
        """
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
        """Turn the shared lock into an exclusive one; return False while others share it."""
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
        """Release the lock."""
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connect(self) -> Connection:
        import sqlite3

        make_private(self._path)
        return sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
