"""Daily backup of the chat database, restored if the database is damaged.

Backups of encrypted chats use the same passphrase.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .database import ENCRYPTED, PLAIN, database_errors
from .database_encryption import open_file, sync_file, wipe_file
from .schema import STEPS, version

if TYPE_CHECKING:
    from sqlite3 import Connection


_COPIES = "history.backup."
BACKUP = f"{_COPIES}db"
ENCRYPTED_BACKUP = f"{_COPIES}sqlcipher.db"
DAY = 24 * 3600.0
_open = partial(open_file, timeout=5.0)
ABANDONED = 3600.0
"""Seconds after which an incomplete backup was abandoned by a killed program."""


def copy_of(folder: Path, passphrase: str | None) -> Path:
    """Return the path of the backup for chats with this passphrase."""
    return folder / (BACKUP if passphrase is None else ENCRYPTED_BACKUP)


def is_due(copy: Path, now: float) -> bool:
    """Return whether the backup is missing, older than a day, or dated in the future (Unix
    seconds).
    """
    try:
        made = copy.stat().st_mtime
    except OSError:
        return True
    return not 0 <= now - made < DAY


class Backup:
    """A backup in progress, in a thread of its own, so that writing continues."""

    def __init__(self, folder: Path, passphrase: str | None) -> None:
        self._folder, self._passphrase = folder, passphrase
        self._connection = _open(_original(folder, passphrase), passphrase)
        self._thread = threading.Thread(target=self._run, name="history backup", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Return whether the backup is in progress."""
        return self._thread.is_alive()

    def stop(self, seconds: float) -> bool:
        """Cancel it, keeping the previous backup; return False if it does not end in time."""
        if self._thread.is_alive():
            with suppress(*database_errors()):  # it has just ended
                self._connection.interrupt()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        # The previous backup is still valid; the next attempt is tomorrow.
        with suppress(OSError, *database_errors()), closing(self._connection):
            back_up(self._folder, self._passphrase, self._connection)


def back_up(folder: Path, passphrase: str | None, connection: Connection) -> bool:
    """Back up the database that `connection` has open.

    Returns False if it is damaged, or if chats were deleted during the backup. The new backup
    replaces the previous one once it is complete, checked and on the disk. Raises errors of the
    database and `OSError`; the previous backup is then kept.
    """
    target = copy_of(folder, passphrase)
    part = folder / f"{target.name}.{os.getpid()}.part"
    for left in folder.glob(f"{target.name}.*.part"):
        if left == part or time.time() - left.stat().st_mtime > ABANDONED:
            wipe_file(left)
    try:
        if not _is_sound(connection):
            return False
        part.touch(0o600, exist_ok=False)
        # SQLCipher gives the new file the key of the old one.
        connection.execute("VACUUM INTO ?", (str(part),))
        with closing(_open(part, passphrase)) as copy:
            if not _is_sound(copy):
                return False
        sync_file(part)
        if _has_deleted(connection, part):
            return False
        part.replace(target)
        if _has_deleted(connection, target):
            wipe_file(target)
            return False
        return True
    finally:
        wipe_file(part)


def restore(folder: Path, passphrase: str | None = None) -> float | None:
    """Restore the database from a valid backup; return its time, None without one.

    The database itself must not exist. Raises `OSError`.
    """
    source, target = copy_of(folder, passphrase), _original(folder, passphrase)
    part = folder / f"{target.name}.part"
    if not source.exists():
        return None
    with suppress(*database_errors()), closing(_open(source, passphrase)) as connection:
        if _is_sound(connection) and version(connection) <= len(STEPS):
            made = source.stat().st_mtime
            wipe_file(part)
            shutil.copyfile(source, part)
            part.chmod(0o600)
            sync_file(part)
            try:
                os.link(part, target)
            except FileExistsError:  # another program was faster
                made = None
            part.unlink()
            return made
    return None


def opens_copy(folder: Path, passphrase: str) -> bool:
    """Return whether this passphrase opens the backup; False without one."""
    copy = copy_of(folder, passphrase)
    if copy.exists():
        with suppress(*database_errors()), closing(_open(copy, passphrase)) as connection:
            return version(connection) > 0
    return False


def wipe_backups(folder: Path, but: Path | None = None) -> None:
    """Overwrite and delete the backups, except one and its parts; raises `OSError`."""
    for path in folder.glob(f"{_COPIES}*"):
        if but is None or not path.name.startswith(but.name):
            wipe_file(path)


def check_for(connection: Connection, seconds: float) -> str:
    """Return the damage that a check of at most `seconds` finds in the database, else "ok"."""
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


def _is_sound(connection: Connection) -> bool:
    return connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"


def _has_deleted(connection: Connection, copy: Path) -> bool:
    """Return whether the backup contains messages that are no longer in the database."""
    connection.execute("ATTACH DATABASE ? AS copy", (str(copy),))
    try:
        gone = (
            "SELECT 1 FROM copy.messages AS old WHERE NOT EXISTS"
            " (SELECT 1 FROM main.messages AS now WHERE now.id = old.id) LIMIT 1"
        )
        return connection.execute(gone).fetchone() is not None
    finally:
        connection.execute("DETACH DATABASE copy")


def wipe_deleted(connection: Connection) -> bool:
    """Finish earlier deletions; return False while another program's reading prevents it.

    SQLite overwrites freed pages (`secure_delete`), but the full-text index keeps deleted words
    until its parts are merged, the log (WAL) keeps old pages until it is truncated, and a backup
    keeps everything. The pending deletion is recorded in the database, so a crash only delays it.
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
        # Retried after the next write, and at the next start.
        return False
    return True
