"""Puts a sound database in the place of a damaged or missing one: backup plus readable rows."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...text import number_format
from .backup import is_sound
from .database import Database, database_errors, is_damage
from .database_encryption import open_file, sync_file, wipe_file
from .history_files import BACKUPS, copies_of, make_private, original, recovered, sync_names
from .page_rows import PageFile
from .schema import STEPS, migrate, version
from .text_index import index_again
from .transactions import write_transaction

if TYPE_CHECKING:
    from sqlite3 import Connection

MAX_FAILED_READS = 20_000
MAX_FAILED_READS_ENCRYPTED = 40
"""After a failed read SQLCipher needs a new connection, and derives the key for it again."""

Row = tuple[Any, ...]

_COLUMNS = {
    "sessions": ("row", "pid", "started"),
    "chats": ("id", "created", "source"),
    "messages": (
        "row", "id", "chat", "parent", "role", "created", "model", "content", "reasoning",
        "attachments", "session",
    ),
    "settings": ("row", "chat", "body"),
    "generations": ("row", "message", "generation", "session"),
    "endings": ("row", "message", "ending", "facts", "pieces"),
    "choices": ("row", "message", "after"),
    "message_pins": ("row", "message", "pinned"),
    "compactions": ("row", "id", "chat", "at", "body"),
    "undos": ("row", "compaction"),
    "pieces": ("message", "number", "text", "reasoning"),
    "drafts": ("chat", "text", "changed"),
    "chores": ("name",),
}  # fmt: skip


_LETTERS = {int: "i", float: "f", str: "s", bytes: "b", type(None): "-"}
_SHAPES = {
    **{
        f"iss{parent}sfsss{attachments}{session}": "messages"
        for parent in "s-"
        for attachments in "s-"
        for session in "i-"
    },
    "sfs": "chats", "sf-": "chats", "iss": "settings", "iisi": "generations",
    "ii-i": "generations", "iissi": "endings", "issss": "compactions", "is": "undos",
    "iiss": "pieces", "ssf": "drafts",
}  # fmt: skip
"""The table of a row by the types of its values. Choices, pins and sessions look alike."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What was recovered: counts in the new database, and its sources.

    `set_aside` is the new name of the damaged file, None if there was none; `copy_made` is the time
    of the backup that was used (Unix seconds). `is_whole` if all of the file could be read.
    """

    set_aside: str | None
    copy_made: float | None
    chats: int
    messages: int
    is_whole: bool

    def __str__(self) -> str:
        if self.set_aside is None:
            text = "The database of the chats was missing."
        else:
            text = f"The chats on the disk are damaged. They were set aside as {self.set_aside}."
        if not self.chats:
            return f"{text} None could be recovered; new ones are kept from now on."
        chats = number_format.counted(self.chats, "chat")
        messages = number_format.counted(self.messages, "message")
        counts = f"Recovered: {chats} with {messages}"
        if self.copy_made is not None:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.copy_made))
            counts += f", with the help of the backup of {when}"
        if self.set_aside is None:
            return f"{text} {counts}; later messages are lost."
        lost = "nothing is missing" if self.is_whole else "some of the file could not be read"
        return f"{text} {counts}; {lost}."


def recover(database: Database) -> Recovery:
    """Set a damaged database aside, and replace it by the newest sound backup and its own rows.

    No connection of this program may have it open. Raises `OSError`; nothing is changed then.
    """
    folder, key = database.folder, database.key
    target = original(folder, key)
    # Like a backup, it is wiped with them if this program is killed.
    part = folder / f"{BACKUPS}recovered.{os.getpid()}.part"
    wipe_file(part)
    try:
        made = _copy_backup(folder, key, part)
        make_private(part)
        with closing(open_file(part, key, timeout=5.0)) as connection:
            migrate(connection)
            is_whole = False
            if target.exists() and target.stat().st_size:
                with closing(_DamagedDatabase(target, key)) as damaged:
                    is_whole = _add_readable(damaged, connection)
            counts = [
                connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
                for table in ("chats", "messages")
            ]
        sync_file(part)
        # From here on the next start finishes it.
        part.replace(recovered(folder, key))
        sync_names(folder)
        aside = database.set_aside()
        database.put_recovered()
    finally:
        wipe_file(part)
    return Recovery(
        set_aside=aside,
        copy_made=made,
        chats=counts[0],
        messages=counts[1],
        is_whole=is_whole,
    )


def _copy_backup(folder: Path, key: str | None, part: Path) -> float | None:
    """Copy the newest sound backup to `part`; return its time, None without one."""
    for copy in copies_of(folder, key):
        with suppress(*database_errors()), closing(open_file(copy, key, timeout=5.0)) as opened:
            if is_sound(opened) and 0 < version(opened) <= len(STEPS):
                made = copy.stat().st_mtime
                make_private(part)
                shutil.copyfile(copy, part)
                return made
    return None


class _DamagedDatabase:
    """Reads rows from a damaged database, without those that cannot be read."""

    def __init__(self, path: Path, key: str | None) -> None:
        self._path, self._key = path, key
        self._connection: Connection | None = None
        self._left = MAX_FAILED_READS if key is None else MAX_FAILED_READS_ENCRYPTED
        self.is_whole = self.query("SELECT count(*) FROM sqlite_schema") is not None
        """Whether all rows could be read so far."""
        if not self.is_whole:
            self._left = 0  # only pages can be read, and only if they are not encrypted

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def query(self, sql: str, *values: object) -> list[Row] | None:
        """Return the rows of a query, None if one of them cannot be read."""
        if not self._left:
            return None
        try:
            if self._connection is None:
                self._connection = open_file(self._path, self._key, timeout=5.0)
                # Tables whose entry in the schema is readable can then be read.
                self._connection.execute("PRAGMA writable_schema = ON")
            return self._connection.execute(sql, values).fetchall()
        except database_errors() as error:
            if not is_damage(error) and "no such table" not in str(error):
                raise
            self._left -= 1
            if self._key is not None:
                self.close()
            return None

    def numbered(self, table: str, last: int) -> Iterator[Row]:
        """Yield the rows of a table with a row number, in order; `last` is at least its highest."""
        names = ", ".join(_COLUMNS[table])
        sql = f"SELECT {names} FROM {table} WHERE row BETWEEN ? AND ? ORDER BY row"  # noqa: S608
        pending = [(first, min(first + 999, last)) for first in range(1, last + 1, 1000)][::-1]
        while pending:
            first, until = pending.pop()
            rows = self.query(sql, first, until)
            if rows is not None:
                yield from rows
            elif first == until or not self._left:
                self.is_whole = False
            else:
                middle = (first + until) // 2
                pending += [(middle + 1, until), (first, middle)]

    def loose_rows(self) -> Iterator[tuple[str, Row]]:
        """Yield each row that its own page still has, with its table; nothing if encrypted."""
        self.query("PRAGMA wal_checkpoint(TRUNCATE)")
        self.close()
        if self._key is not None:
            return
        for row in PageFile(self._path).rows():
            table = _SHAPES.get("".join(_LETTERS[type(value)] for value in row))
            if table is not None:
                yield table, row

    def last_row(self, table: str, known: int) -> int:
        """Return the highest row number of a table, at least `known`.

        If it cannot be read, it is estimated: each row takes at least 16 bytes of the file.
        """
        found = self.query(f"SELECT ifnull(max(row), 0) FROM {table}")  # noqa: S608
        if found is None:
            return known + self._path.stat().st_size // 16
        return max(known, found[0][0])

    def keyed(self, table: str, key: str) -> list[Row]:
        """Return the rows of a table without row numbers, read from both of its ends."""
        rows: dict[object, Row] = {}
        names = ", ".join(_COLUMNS[table])
        for order in ("ASC", "DESC"):
            after: object = None
            while True:
                where = "" if after is None else f"WHERE {key} {'>' if order == 'ASC' else '<'} ?"
                found = self.query(
                    f"SELECT {names} FROM {table} {where} ORDER BY {key} {order} LIMIT 1",  # noqa: S608
                    *(() if after is None else (after,)),
                )
                if found is None:
                    self.is_whole = False
                    break
                if not found:
                    return list(rows.values())
                after = found[0][0]
                rows[after] = found[0]
        return list(rows.values())


def _add_readable(damaged: _DamagedDatabase, target: Connection) -> bool:
    """Add the rows of a damaged database that `target` lacks; return whether all were readable."""
    target.execute("PRAGMA foreign_keys = OFF")
    with write_transaction(target):
        _add(target, "chats", damaged.keyed("chats", "id"))
        for table in ("messages", "settings", "compactions"):
            _add_numbered(damaged, target, table)
        messages = _column(target, "SELECT row FROM messages")
        _add_pieces(damaged, target, messages)
        for table in ("endings", "generations", "choices", "message_pins", "undos", "sessions"):
            _add_numbered(damaged, target, table)
        _add(target, "drafts", damaged.keyed("drafts", "chat"), or_else="REPLACE")
        _add(target, "chores", damaged.keyed("chores", "name"))
        if not damaged.is_whole:
            for table, row in damaged.loose_rows():
                _add(target, table, [row])
        _connect(target)
        index_again(target)
    return damaged.is_whole


def _add_numbered(damaged: _DamagedDatabase, target: Connection, table: str) -> None:
    """Add the rows of a table with row numbers."""
    last = damaged.last_row(table, _last(target, table))
    _add(target, table, damaged.numbered(table, last))


def _connect(target: Connection) -> None:
    """Delete rows about lost ones; give lost chats back to their messages, and lost parents."""
    target.execute(
        "INSERT OR IGNORE INTO chats SELECT chat, min(created), NULL FROM messages GROUP BY chat"
    )
    for table in ("generations", "endings", "choices", "message_pins", "pieces"):
        target.execute(
            f"DELETE FROM {table} WHERE message NOT IN (SELECT row FROM messages)"  # noqa: S608
        )
    for table in ("settings", "compactions"):
        target.execute(f"DELETE FROM {table} WHERE chat NOT IN (SELECT id FROM chats)")  # noqa: S608
    target.execute("DELETE FROM undos WHERE compaction NOT IN (SELECT id FROM compactions)")
    orphans = target.execute(
        "SELECT row, chat FROM messages AS m WHERE parent IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM messages AS p WHERE p.id = m.parent AND p.row < m.row)"
    ).fetchall()
    # Rows are never rewritten, except here.
    (trigger,) = target.execute(
        "SELECT sql FROM sqlite_schema WHERE name = 'messages_stay'"
    ).fetchone()
    target.execute("DROP TRIGGER messages_stay")
    target.executemany(
        "UPDATE messages SET parent = (SELECT id FROM messages WHERE chat = ?2 AND row < ?1"
        " ORDER BY row DESC LIMIT 1) WHERE row = ?1",
        orphans,
    )
    target.execute(trigger)


def _add_pieces(damaged: _DamagedDatabase, target: Connection, messages: list[object]) -> None:
    """Add the pieces of all messages, one message after the other if some cannot be read."""
    everything = damaged.query("SELECT message, number, text, reasoning FROM pieces")
    if everything is not None:
        _add(target, "pieces", everything)
        return
    for message in messages:
        sql = "SELECT message, number, text, reasoning FROM pieces WHERE message = ?"
        rows = damaged.query(sql, message)
        if rows is None:
            damaged.is_whole = False
        else:
            _add(target, "pieces", rows)


def _add(target: Connection, table: str, rows: Any, or_else: str = "IGNORE") -> None:
    """Insert rows; those that are there, or violate a constraint, are left out or replaced."""
    names = _COLUMNS[table]
    places = ", ".join("?" * len(names))
    target.executemany(
        f"INSERT OR {or_else} INTO {table}({', '.join(names)}) VALUES ({places})",  # noqa: S608
        rows,
    )


def _column(connection: Connection, sql: str) -> list[object]:
    return [row[0] for row in connection.execute(sql)]


def _last(connection: Connection, table: str) -> int:
    return connection.execute(f"SELECT ifnull(max(row), 0) FROM {table}").fetchone()[0]  # noqa: S608
