"""The database schema and its migrations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .history_errors import HistoryError
from .transactions import write_transaction

if TYPE_CHECKING:
    from sqlite3 import Connection

_APPEND_ONLY = (
    "sessions", "chats", "messages", "pieces", "generations", "endings", "choices", "message_pins",
    "settings", "compactions", "undos",
)  # fmt: skip

_FIRST = """
CREATE TABLE sessions(
    row INTEGER PRIMARY KEY, pid INTEGER NOT NULL, started REAL NOT NULL
);
CREATE TABLE chats(
    id TEXT PRIMARY KEY, created REAL NOT NULL, source TEXT
) WITHOUT ROWID;
CREATE UNIQUE INDEX chats_by_source ON chats(source) WHERE source IS NOT NULL;
CREATE TABLE settings(
    row INTEGER PRIMARY KEY,
    chat TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
    body TEXT NOT NULL
);
CREATE INDEX settings_by_chat ON settings(chat);
CREATE TABLE messages(
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    chat TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
    parent TEXT REFERENCES messages(id),
    role TEXT NOT NULL,
    created REAL NOT NULL,
    model TEXT NOT NULL,
    content TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    attachments TEXT,
    session INTEGER
);
CREATE INDEX messages_by_chat ON messages(chat, created);
CREATE INDEX messages_by_parent ON messages(parent);
CREATE INDEX messages_by_model ON messages(model, chat);
CREATE INDEX messages_by_time ON messages(created);
CREATE INDEX prompts_by_time ON messages(created) WHERE role = 'user';
CREATE TABLE pieces(
    message INTEGER NOT NULL REFERENCES messages(row) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    PRIMARY KEY(message, number)
) WITHOUT ROWID;
CREATE TABLE generations(
    row INTEGER PRIMARY KEY,
    message INTEGER NOT NULL REFERENCES messages(row) ON DELETE CASCADE,
    generation TEXT,
    session INTEGER NOT NULL
);
CREATE INDEX generations_by_message ON generations(message);
CREATE TABLE endings(
    row INTEGER PRIMARY KEY,
    message INTEGER NOT NULL REFERENCES messages(row) ON DELETE CASCADE,
    ending TEXT NOT NULL,
    facts TEXT NOT NULL,
    pieces INTEGER NOT NULL
);
CREATE INDEX endings_by_message ON endings(message);
CREATE TABLE choices(
    row INTEGER PRIMARY KEY,
    message INTEGER NOT NULL REFERENCES messages(row) ON DELETE CASCADE,
    after INTEGER NOT NULL
);
CREATE INDEX choices_by_message ON choices(message);
CREATE TABLE message_pins(
    row INTEGER PRIMARY KEY,
    message INTEGER NOT NULL REFERENCES messages(row) ON DELETE CASCADE,
    pinned INTEGER NOT NULL
);
CREATE INDEX message_pins_by_message ON message_pins(message);
CREATE TABLE compactions(
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    chat TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
    at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX compactions_by_chat ON compactions(chat);
CREATE TABLE undos(
    row INTEGER PRIMARY KEY,
    compaction TEXT NOT NULL REFERENCES compactions(id) ON DELETE CASCADE
);
CREATE INDEX undos_by_compaction ON undos(compaction);
CREATE TABLE drafts(
    chat TEXT PRIMARY KEY, text TEXT NOT NULL, changed REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE chores(name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5(
    text, content = '', tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
);
"""


def _create(connection: Connection) -> None:
    for statement in _FIRST.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    for table in _APPEND_ONLY:
        connection.execute(
            f"CREATE TRIGGER {table}_stay BEFORE UPDATE ON {table} "
            "BEGIN SELECT raise(ABORT, 'rows of the history are never rewritten'); END"
        )


STEPS: tuple[Callable[[Connection], None], ...] = (_create,)
"""Each creates its version of the tables from the previous one; released steps never change."""


def migrate(connection: Connection, steps: Sequence[Callable[[Connection], None]] = STEPS) -> None:
    """Migrate to the current version; raises `HistoryError` for a newer one, or foreign tables.

    Only drafts and chores may be updated: triggers reject updates of all other tables.
    """
    if version(connection) == len(steps):
        return
    with write_transaction(connection):
        # Checked under the lock: another program may have migrated meanwhile.
        found = version(connection)
        if found > len(steps):
            raise HistoryError(
                "The chats were written by a newer ingle, and this one cannot read them.",
                "Update ingle; until then, new messages are not kept.",
            )
        if found == 0 and connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None:
            raise HistoryError(
                "The file of the chats is a database of another program, and is left as it is.",
                "Move it out of the folder; until then, new messages are not kept.",
            )
        for step in steps[found:]:
            step(connection)
        connection.execute(f"PRAGMA user_version = {len(steps)}")


def version(connection: Connection) -> int:
    """Return the version of the tables, 0 for an empty file."""
    return connection.execute("PRAGMA user_version").fetchone()[0]
