"""`wipe_deleted`: leaves nothing in the files of what was deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .backup import wipe_backups
from .database import database_errors

if TYPE_CHECKING:
    from sqlite3 import Connection


def wipe_deleted(connection: Connection) -> bool:
    """Do the rest of earlier deletions; False where another program's reading still hinders it.

    SQLite overwrites freed pages (`secure_delete`), but the full-text index keeps deleted words in
    its older parts until they are merged, the log (WAL) the old pages until it is cut, and a copy
    all of it. That this is to be done stands in the database, so a crash only puts it off.
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
        # Tried again behind the next note, and at the next start.
        return False
    return True
