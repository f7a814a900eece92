"""Encrypts and decrypts the chat database with SQLCipher, safely against crashes."""

from __future__ import annotations

import importlib
import os
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .history_errors import HistoryError
from .history_files import sync_names

if TYPE_CHECKING:
    from sqlite3 import Connection

MIN_PASSPHRASE = 8
NO_WAY_BACK = "Without it nobody can read the chats, not even you: it cannot be recovered."
PART = ".part"
COMPANIONS = ("-wal", "-shm", "-journal")
_WIPE_CHUNK = 1 << 20


def load_sqlcipher() -> Any:
    """Return SQLCipher's module, compatible with `sqlite3`; raises `HistoryError` if it is
    missing.
    """
    try:
        return importlib.import_module("sqlcipher3.dbapi2")
    except ImportError as error:
        raise HistoryError(
            "Encrypted chats need SQLCipher, which is not installed.",
            "Install it with `pip install 'ingle[encryption]'`, then start the chat again.",
        ) from error


def open_file(path: Path, key: str | None, timeout: float = 0.0) -> Connection:
    """Return a connection to a database file, encrypted with `key` unless that is None.

    It may be used from any thread. Raises `HistoryError` if SQLCipher is missing.
    """
    if key is None:
        import sqlite3 as library
    else:
        library = load_sqlcipher()
    connection: Connection = library.connect(
        str(path), timeout=timeout, isolation_level=None, check_same_thread=False
    )
    # One damaged byte in a text must not make all rows of a query unreadable.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    if key is not None:
        connection.execute(f"PRAGMA key = {quoted(key)}")
    return connection


def quoted(text: str) -> str:
    """Return `text` as an SQL string, for statements that take no parameters."""
    return "'" + text.replace("\0", "").replace("'", "''") + "'"


def passphrase_problem(passphrase: str) -> str | None:
    """Return why a passphrase is not acceptable, None if it is."""
    if len(passphrase) < MIN_PASSPHRASE:
        return f"The passphrase needs at least {MIN_PASSPHRASE} characters."
    if "\0" in passphrase:
        return "The passphrase has a character that cannot be typed again."
    return None


def encrypt_file(plain: Path, encrypted: Path, passphrase: str) -> None:
    """Encrypt the database `plain` into `encrypted`; `plain` is then overwritten and deleted.

    The caller holds a lock on `plain`. Until the new file is complete, checked and on the disk, the
    old one is valid; after its renaming the new one is, and the next start also wipes `plain`.
    """
    part = _fresh_part(encrypted)
    _copy(plain, "", part, passphrase)
    _put_in_place(part, encrypted)
    wipe_file(plain)


def decrypt_file(encrypted: Path, plain: Path, passphrase: str) -> None:
    """Decrypt the database `encrypted` into `plain`; `encrypted` is then deleted.

    A crash before the deletion leaves both; then the encrypted one is still valid.
    """
    part = _fresh_part(plain)
    _copy(encrypted, passphrase, part, "")
    _put_in_place(part, plain)
    for companion in companions(encrypted):
        companion.unlink(missing_ok=True)
    encrypted.unlink()


def companions(path: Path) -> list[Path]:
    """Return the paths of the files that SQLite may keep beside a database."""
    return [path.with_name(path.name + ending) for ending in COMPANIONS]


def wipe_file(path: Path) -> None:
    """Overwrite a database and its companions with zeros and delete them, as far as they exist.

    A file with another name is only unlinked: that may be the live database.
    On flash storage and copy-on-write file systems, old blocks may remain.
    """
    for each in (path, *companions(path)):
        if not each.exists() or each.stat().st_nlink > 1:
            continue
        with each.open("r+b") as file:
            left = file.seek(0, os.SEEK_END)
            file.seek(0)
            while left > 0:
                left -= file.write(bytes(min(left, _WIPE_CHUNK)))
            file.flush()
            os.fsync(file.fileno())
    for each in (*companions(path), path):
        each.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Wait until a file is on the disk."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _fresh_part(target: Path) -> Path:
    part = target.with_name(target.name + PART)
    wipe_file(part)
    part.touch(0o600, exist_ok=False)
    return part


def _copy(source: Path, source_key: str, target: Path, target_key: str) -> None:
    """Copy a database under another key, and verify the copy."""
    sqlcipher = load_sqlcipher()
    connection: Connection = sqlcipher.connect(str(source), isolation_level=None)
    with closing(connection):
        if source_key:
            connection.execute(f"PRAGMA key = {quoted(source_key)}")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute(f"ATTACH DATABASE ? AS copy KEY {quoted(target_key)}", (str(target),))
        connection.execute("SELECT sqlcipher_export('copy')").fetchall()
        connection.execute(f"PRAGMA copy.user_version = {version}")
        counts = [
            connection.execute(f"SELECT count(*) FROM {schema}.{table}").fetchone()[0]  # noqa: S608
            for table in ("chats", "messages", "pieces", "words_idx")
            for schema in ("main", "copy")
        ]
        checked = connection.execute("PRAGMA copy.quick_check(1)").fetchone()[0]
        connection.execute("DETACH DATABASE copy")
    if counts[0::2] != counts[1::2] or checked != "ok":
        wipe_file(target)
        raise HistoryError("The converted chats failed their check, so nothing changed.")


def _put_in_place(part: Path, target: Path) -> None:
    sync_file(part)
    part.replace(target)
    sync_names(target.parent)
