"""A connection that only reads, opened on first use."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from .database import Database, database_errors

if TYPE_CHECKING:
    from sqlite3 import Connection


class ReadConnection:
    """Opened anew after the file was replaced; its user holds `lock`, but not for `interrupt`."""

    def __init__(self, database: Database) -> None:
        self.lock = threading.Lock()
        self._database = database
        self._connection: Connection | None = None
        self._replaced = 0

    def open(self) -> Connection:
        """Return the connection; raises what `Database.connect` raises."""
        if self._replaced != self._database.replaced:
            self.close()
            self._replaced = self._database.replaced
        if self._connection is None:
            self._connection = self._database.connect()
        return self._connection

    def interrupt(self) -> None:
        """End a running query with an error."""
        connection = self._connection
        if connection is not None:
            # It may be closed by now, and then nothing runs on it.
            with suppress(*database_errors()):
                connection.interrupt()

    def close(self) -> None:
        """Close it until the next use."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
