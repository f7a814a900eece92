"""What is broken in a database that was found damaged, and the part of it that can be mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .database import damage, database_errors, is_damage
from .row_writes import index_message

if TYPE_CHECKING:
    from sqlite3 import Connection


def mend(connection: Connection) -> None:
    """Make the full-text index anew where only that is damaged; raises damage in the chats.

    Needs a transaction that writes.
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
