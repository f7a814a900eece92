"""Creation of a database and migration of older ones."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.history.database.database import Database
from ingle.tui.history.database.history_errors import HistoryError
from ingle.tui.history.database.schema import STEPS, migrate

if TYPE_CHECKING:
    from ..conftest import SavedChat


def add_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE messages ADD COLUMN mood TEXT")


def fail(connection: sqlite3.Connection) -> None:
    add_column(connection)
    raise sqlite3.OperationalError("no room")


def test_older_database_is_migrated(saved_chat: SavedChat) -> None:
    saved_chat.add_prompt("from the old days")
    saved_chat.store.close()
    path = saved_chat.store.database.path
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="no room"):
            migrate(connection, (*STEPS, fail))
        migrate(connection, STEPS)  # unchanged by the failed migration
        migrate(connection, (*STEPS, add_column))
        assert connection.execute("SELECT content, mood FROM messages").fetchall() == [
            ("from the old days", None)
        ]
        with pytest.raises(HistoryError, match="newer ingle"):
            migrate(connection, STEPS)


def test_repeated_migration_is_harmless(saved_chat: SavedChat) -> None:
    connection = saved_chat.store.database.connect()
    with closing(connection):
        migrate(connection)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    assert version == len(STEPS)


def test_new_file_is_opened_while_another_program_creates_it(tmp_path: Path) -> None:
    """The switch to WAL is refused at once beside a write, whatever SQLite's timeout is."""
    database = Database(tmp_path)
    with closing(
        sqlite3.connect(database.path, isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.2, other.execute, ["COMMIT"])
        end.start()
        with closing(database.connect()) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        end.join()
    database.leave()
