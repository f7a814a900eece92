"""A copy of the database, made once a day beside it, and put in its place where it is damaged.

That of encrypted chats is encrypted with the same passphrase.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .database import ENCRYPTED, PLAIN, database_errors
from .database_encryption import load_sqlcipher, quoted, wipe_file
from .schema import STEPS

if TYPE_CHECKING:
    from sqlite3 import Connection

_COPIES = "history.backup."
BACKUP = f"{_COPIES}db"
ENCRYPTED_BACKUP = f"{_COPIES}sqlcipher.db"
DAY = 24 * 3600.0
ABANDONED = 3600.0
"""Seconds after which half a copy is what a killed program left."""


def copy_of(folder: Path, passphrase: str | None) -> Path:
    """Where the copy of chats that need this passphrase is, or would be."""
    return folder / (BACKUP if passphrase is None else ENCRYPTED_BACKUP)


def is_due(copy: Path, now: float) -> bool:
    """Whether the copy is missing, older than a day, or of a time to come (Unix seconds)."""
    try:
        made = copy.stat().st_mtime
    except OSError:
        return True
    return not 0 <= now - made < DAY


class Backup:
    """One copy in the making, in a thread of its own: whoever writes need not wait."""

    def __init__(self, folder: Path, passphrase: str | None) -> None:
        self._folder, self._passphrase = folder, passphrase
        self._connection = _open(_original(folder, passphrase), passphrase)
        self._thread = threading.Thread(target=self._run, name="history backup", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it is being made still."""
        return self._thread.is_alive()

    def stop(self, seconds: float) -> bool:
        """Break it off, leaving the old copy as it was; False where it does not end in time."""
        if self._thread.is_alive():
            with suppress(*database_errors()):  # it has just ended
                self._connection.interrupt()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        # The old copy is as good as it was, and tomorrow is another day.
        with suppress(OSError, *database_errors()), closing(self._connection):
            back_up(self._folder, self._passphrase, self._connection)


def back_up(
    folder: Path, passphrase: str | None = None, connection: Connection | None = None
) -> bool:
    """Copy the database as it is now; False where it is damaged, or chats were deleted meanwhile.

    The copy takes the old one's place once it is whole, checked and on the disk. Raises errors of
    the database and `OSError`, and then the old copy is as it was.
    """
    if connection is None:
        with closing(_open(_original(folder, passphrase), passphrase)) as own:
            return back_up(folder, passphrase, own)
    target = copy_of(folder, passphrase)
    part = folder / f"{target.name}.{os.getpid()}.part"
    for left in folder.glob(f"{target.name}.*.part"):
        if left == part or time.time() - left.stat().st_mtime > ABANDONED:
            _remove(left)
    try:
        if not _is_sound(connection):
            return False
        os.close(os.open(part, os.O_CREAT | os.O_EXCL, 0o600))
        # SQLCipher gives the new file the key of the old one.
        connection.execute("VACUUM INTO ?", (str(part),))
        with closing(_open(part, passphrase)) as copy:
            if not _is_sound(copy):
                return False
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if _has_deleted(connection, part):
            return False
        part.replace(target)
        if _has_deleted(connection, target):
            _remove(target)
            return False
        return True
    finally:
        _remove(part)


def restore(folder: Path, passphrase: str | None = None) -> float | None:
    """Begin the database with the copy, where there is a good one; when that was made.

    There must be no database. Raises `OSError`.
    """
    source, target = copy_of(folder, passphrase), _original(folder, passphrase)
    part = folder / f"{target.name}.part"
    if not source.exists():
        return None
    with suppress(*database_errors()), closing(_open(source, passphrase)) as connection:
        if _is_sound(connection) and _version(connection) <= len(STEPS):
            made = source.stat().st_mtime
            _remove(part)
            shutil.copyfile(source, part)
            part.chmod(0o600)
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            try:
                os.link(part, target)
            except FileExistsError:  # another program was quicker
                made = None
            part.unlink()
            return made
    return None


def opens_copy(folder: Path, passphrase: str) -> bool:
    """Whether there is a copy that this passphrase opens."""
    copy = copy_of(folder, passphrase)
    if copy.exists():
        with suppress(*database_errors()), closing(_open(copy, passphrase)) as connection:
            return _version(connection) > 0
    return False


def wipe_backups(folder: Path, but: Path | None = None) -> None:
    """Overwrite and remove the copies, but for one and its parts; raises `OSError`."""
    for path in folder.glob(f"{_COPIES}*"):
        if but is None or not path.name.startswith(but.name):
            _remove(path)


def check_for(connection: Connection, seconds: float) -> str:
    """What is wrong with the database, as far as `seconds` of looking find out; else "ok"."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    try:
        return connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except database_errors() as error:
        if "interrupted" in str(error):
            return "ok"
        raise
    finally:
        connection.set_progress_handler(None, 0)


def _original(folder: Path, passphrase: str | None) -> Path:
    return folder / (PLAIN if passphrase is None else ENCRYPTED)


def _open(path: Path, passphrase: str | None) -> Connection:
    if passphrase is None:
        import sqlite3

        return sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    connection: Connection = load_sqlcipher().connect(
        str(path), timeout=5, isolation_level=None, check_same_thread=False
    )
    connection.execute(f"PRAGMA key = {quoted(passphrase)}")
    return connection


def _is_sound(connection: Connection) -> bool:
    return connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"


def _version(connection: Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _has_deleted(connection: Connection, copy: Path) -> bool:
    """Whether the copy has messages that the database has no more."""
    connection.execute("ATTACH DATABASE ? AS copy", (str(copy),))
    try:
        gone = (
            "SELECT 1 FROM copy.messages AS old WHERE NOT EXISTS"
            " (SELECT 1 FROM main.messages AS now WHERE now.id = old.id) LIMIT 1"
        )
        return connection.execute(gone).fetchone() is not None
    finally:
        connection.execute("DETACH DATABASE copy")


def _remove(path: Path) -> None:
    if path.exists():
        wipe_file(path)
