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
    for chat, messages in _chats(connection):
        name = str(chat.get("name") or "")
        found = ImportedChat("oterm", f"{chat['id']}:{name}", name, changed)
        found.settings.system = str(chat.get("system") or "")
        for message in messages:
            placed = _message(message, "author", "text")
            placed.model = str(chat.get("model") or "")
            placed.created = changed
            found.append(placed)
        yield found


def _elia(connection: Connection) -> Iterator[ImportedChat]:
    for chat, messages in _chats(connection):
        started, title = chat.get("started_at"), str(chat.get("title") or "")
        found = ImportedChat("elia", f"{chat['id']}:{started}", title, seconds(started))
        for message in messages:
            if message.get("role") == "system":
                found.settings.system = str(message.get("content") or "")
                continue
            placed = _message(message, "role", "content")
            placed.model = str(message.get("model") or chat.get("model") or "")
            placed.created = seconds(message.get("timestamp"))
            found.append(placed)
        yield found


def _chats(connection: Connection) -> Iterator[tuple[Row, Iterator[Row]]]:
    """Yield each chat with its messages."""
    for chat in _rows(connection, "SELECT * FROM chat ORDER BY id"):
        query = "SELECT * FROM message WHERE chat_id = ? ORDER BY id"
        yield chat, _rows(connection, query, (chat["id"],))


def _message(row: Row, role: str, text: str) -> ForeignMessage:
    """Return a message, given the names of its columns for role and text."""
    content = row.get(text)
    return ForeignMessage(
        str(row["id"]),
        role=role_of(row.get(role)),
        text=content if isinstance(content, str) else "",
    )


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
