"""Removes the traces of deleted messages from the database files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .backup import wipe_backups
from .database import database_errors

if TYPE_CHECKING:
    from sqlite3 import Connection


def wipe_deleted(connection: Connection) -> bool:
    """Finish earlier deletions; return False while another program's reading prevents it.

    SQLite overwrites freed pages (`secure_delete`), but the full-text index keeps deleted words
    until its parts are merged, the log (WAL) keeps old pages until it is truncated, and a backup
    keeps everything. The pending deletion is recorded in the database, so a crash only delays it.
    """
    try:
        if connection.execute("SELECT 1 FROM chores WHERE name = 'wipe'").fetchone() is None:
            return True
        connection.execute("INSERT INTO words(words) VALUES ('optimize')")
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            return False
        file = connection.execute("PRAGMA database_list").fetchone()[2]
        wipe_backups(Path(file).parent)
        connection.execute("DELETE FROM chores WHERE name = 'wipe'")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except (OSError, *database_errors()):
        # Retried after the next write, and at the next start.
        return False
    return True
