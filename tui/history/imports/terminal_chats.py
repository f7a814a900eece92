"""Imports the databases of the terminal programs oterm and elia."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .imported_chat import ForeignMessage, ImportedChat, MalformedChat, role_of, seconds

if TYPE_CHECKING:
    from sqlite3 import Connection

Row = dict[str, Any]


def read_terminal_chats(path: Path) -> Iterator[ImportedChat]:
    """Yield every chat in oterm's `store.db` or elia's `elia.sqlite`; raises `MalformedChat`."""
    import sqlite3

    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        with closing(connection):
            connection.execute("PRAGMA trusted_schema = OFF")
            if "text" in (columns := _columns(connection, "message")) and "author" in columns:
                yield from _oterm(connection, path)
            elif {"content", "role", "chat_id"} <= columns:
                yield from _elia(connection)
            else:
                raise MalformedChat("this database is neither oterm's nor elia's")
    except sqlite3.Error as error:
        raise MalformedChat(f"the database cannot be read ({error})") from error


def _oterm(connection: Connection, path: Path) -> Iterator[ImportedChat]:
    # oterm stores no times; the file's time is the best estimate.
    changed = path.stat().st_mtime
    for chat in _rows(connection, "SELECT * FROM chat ORDER BY id"):
        number, name = chat["id"], str(chat.get("name") or "")
        found = ImportedChat("oterm", f"{number}:{name}", name, changed)
        found.settings.system = str(chat.get("system") or "")
        before: str | None = None
        for message in _rows(
            connection, "SELECT * FROM message WHERE chat_id = ? ORDER BY id", (number,)
        ):
            key = str(message["id"])
            placed = _placed(key, before, message.get("author"), message.get("text"))
            placed.model = str(chat.get("model") or "")
            placed.created = changed
            found.add(placed)
            before = key
        found.current = before
        yield found


def _elia(connection: Connection) -> Iterator[ImportedChat]:
    for chat in _rows(connection, "SELECT * FROM chat ORDER BY id"):
        number, started = chat["id"], chat.get("started_at")
        title = str(chat.get("title") or "")
        found = ImportedChat("elia", f"{number}:{started}", title, seconds(started))
        before: str | None = None
        for message in _rows(
            connection, "SELECT * FROM message WHERE chat_id = ? ORDER BY id", (number,)
        ):
            key = str(message["id"])
            if message.get("role") == "system":
                found.settings.system = str(message.get("content") or "")
                continue
            placed = _placed(key, before, message.get("role"), message.get("content"))
            placed.model = str(message.get("model") or chat.get("model") or "")
            placed.created = seconds(message.get("timestamp"))
            found.add(placed)
            before = key
        found.current = before
        yield found


def _placed(key: str, parent: str | None, role: object, text: object) -> ForeignMessage:
    return ForeignMessage(key, parent, role_of(role), text if isinstance(text, str) else "")


def _columns(connection: Connection, table: str) -> set[str]:
    """Return the columns of a real table; evaluating a view could take arbitrarily long."""
    real = connection.execute(
        "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    if real is None:
        return set()
    return {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _rows(connection: Connection, query: str, values: tuple[object, ...] = ()) -> Iterator[Row]:
    cursor = connection.execute(query, values)
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield dict(zip(names, row, strict=True))
