"""Repairs the full-text index of a damaged database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .database import damage, database_errors, is_damage
from .row_writes import index_message

if TYPE_CHECKING:
    from sqlite3 import Connection


def repair_index(connection: Connection) -> None:
    """Rebuild the full-text index if only it is damaged; raises damage of the chats themselves.

    Needs a write transaction.
    """
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok" and "fts5" not in found:
        raise damage(found)
    try:
        connection.execute("INSERT INTO words(words) VALUES ('integrity-check')")
    except database_errors() as error:
        if not is_damage(error):
            raise
        _index_again(connection)


def _index_again(connection: Connection) -> None:
    connection.execute("INSERT INTO words(words) VALUES ('delete-all')")
    rows = connection.execute(
        "SELECT row FROM messages WHERE role = 'user'"
        " OR EXISTS (SELECT 1 FROM endings WHERE message = messages.row)"
    ).fetchall()
    for (row,) in rows:
        index_message(connection, row)
