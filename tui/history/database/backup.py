"""Daily backups of the chat database, in generations.

Backups of encrypted chats use the same passphrase.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .database import database_errors
from .database_encryption import open_file, sync_file, wipe_file
from .history_files import (
    BACKUPS,
    GENERATIONS,
    copies_of,
    copy_of,
    generation,
    original,
    sync_names,
)
from .schema import version

if TYPE_CHECKING:
    from sqlite3 import Connection


DAY = 24 * 3600.0
_open = partial(open_file, timeout=5.0)
ABANDONED = 3600.0
"""Seconds after which an incomplete backup was abandoned by a killed program."""


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

    def __init__(
        self, folder: Path, passphrase: str | None, on_trouble: Callable[[str], None]
    ) -> None:
        self._folder, self._passphrase, self._on_trouble = folder, passphrase, on_trouble
        self._connection = _open(original(folder, passphrase), passphrase)
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
            back_up(self._folder, self._passphrase, self._connection, self._on_trouble)


def back_up(
    folder: Path,
    passphrase: str | None,
    connection: Connection,
    on_trouble: Callable[[str], None],
) -> bool:
    """Back up the database that `connection` has open.

    Returns False if it is damaged, or if chats were deleted during the backup. The new backup takes
    its place once it is complete, checked and on the disk; `GENERATIONS` are kept, and for ever
    those with messages that the database has lost, which is reported. Raises errors of the database
    and `OSError`; the previous backups are then kept.
    """
    target = copy_of(folder, passphrase)
    part = folder / f"{target.name}.{os.getpid()}.part"
    for left in folder.glob(f"{target.name}.*.part"):
        if left == part or time.time() - left.stat().st_mtime > ABANDONED:
            wipe_file(left)
    try:
        if not is_sound(connection) or _is_wiping(connection):
            return False
        part.touch(0o600, exist_ok=False)
        # SQLCipher gives the new file the key of the old one.
        connection.execute("VACUUM INTO ?", (str(part),))
        with closing(_open(part, passphrase)) as copy:
            if not is_sound(copy):
                return False
        sync_file(part)
        if _has_deleted(connection, part):
            return False
        if target.exists() and (kept := _make_room(connection, target)):
            on_trouble(
                "The backup of the chats has messages that the chats no longer have. It is kept as "
                f"{kept}."
            )
        part.replace(target)
        sync_names(folder)
        if _has_deleted(connection, target):
            wipe_file(target)
            return False
        return True
    finally:
        wipe_file(part)


def _make_room(connection: Connection, target: Path) -> str | None:
    """Make the newest backup an older one; return its new name if it must be kept.

    A deletion wipes all backups, so what only a backup has was lost. A damaged backup is replaced.
    """
    try:
        has_more = _has_deleted(connection, target)
    except database_errors():
        return None
    if has_more:
        kept = target.with_name(f"{target.name}.kept-{time.strftime('%Y%m%d-%H%M%S')}")
        target.replace(kept)
        return kept.name
    for number in range(GENERATIONS - 1, 1, -1):
        if (older := generation(target, number - 1)).exists():
            older.replace(generation(target, number))
    target.replace(generation(target, 1))
    return None


def opens_copy(folder: Path, passphrase: str) -> bool:
    """Return whether this passphrase opens a backup; False without one."""
    for copy in copies_of(folder, passphrase):
        with suppress(*database_errors()), closing(_open(copy, passphrase)) as connection:
            if version(connection) > 0:
                return True
    return False


def wipe_backups(folder: Path, but: Path | None = None) -> None:
    """Overwrite and delete the backups, except one and its parts; raises `OSError`."""
    for path in folder.glob(f"{BACKUPS}*"):
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


def is_sound(connection: Connection) -> bool:
    """Return whether SQLite's check finds no damage."""
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


def _is_wiping(connection: Connection) -> bool:
    """Return whether deleted chats have still to be wiped, from the backups too."""
    return connection.execute("SELECT 1 FROM chores WHERE name = 'wipe'").fetchone() is not None


def wipe_deleted(connection: Connection) -> bool:
    """Finish earlier deletions; return False while another program's reading prevents it.

    SQLite overwrites freed pages (`secure_delete`), but the full-text index keeps deleted words
    until its parts are merged, the log (WAL) keeps old pages until it is truncated, and a backup
    keeps everything. The pending deletion is recorded in the database, so a crash only delays it.
    """
    try:
        if not _is_wiping(connection):
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
