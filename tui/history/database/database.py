"""The SQLite file of the chats: connections, locking and encryption."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .database_encryption import (
    companions,
    decrypt_file,
    encrypt_file,
    load_sqlcipher,
    open_file,
    wipe_file,
)
from .history_errors import HistoryError, HistoryLocked, WrongPassphrase
from .history_files import ENCRYPTED, PLAIN, copies_of, is_lost, make_private, recovered, sync_names
from .schema import migrate, version
from .transactions import closed_on_error

if TYPE_CHECKING:
    from sqlite3 import Connection


LOCK_NAME = "history.lock"
LOCK_PATIENCE = 5.0
"""Seconds to wait for a program that holds the lock exclusively."""


class FolderLock:
    """A lock between programs, released when its holder ends.

    It is SQLite's own lock, on an empty database beside the chats: the same on every system, unlike
    the systems' own locks. May be used from any thread.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        self._connection: Connection | None = None
        self._mutex = threading.Lock()

    def share(self) -> None:
        """Take the lock shared; raises SQLite's error while another program holds it
        exclusively.
        """
        with self._mutex:
            if self._connection is None:
                with closed_on_error(self._connect()) as connection:
                    connection.execute(f"PRAGMA busy_timeout = {int(LOCK_PATIENCE * 1000)}")
                    connection.execute("BEGIN")
                    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                    self._connection = connection

    def take(self) -> bool:
        """Turn the shared lock into an exclusive one; return False while others share it."""
        import sqlite3

        self.release()
        with self._mutex:
            connection = self._connect()
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                connection.close()
                if "locked" in str(error):
                    return False
                raise
            self._connection = connection
            return True

    def release(self) -> None:
        """Release the lock."""
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connect(self) -> Connection:
        make_private(self._path)
        return open_file(self._path, None)


BUSY_MILLISECONDS = 5000
"""How long to wait for another program's lock before writing is deferred."""


class Database:
    """Opens connections; the file is created on first use.

    The folder is for its owner only (0700), and so are the files (0600). Every connection may be
    used from any thread, by one at a time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passphrase: str | None = None
        """Of the encrypted chats; None if none is needed or it is not known."""
        self.replaced = 0
        """How often a damaged file was set aside; connections from before still read that one."""
        self._is_right = False
        self._lock = FolderLock(folder)

    @property
    def path(self) -> Path:
        """Return the path of the database, the encrypted one if it exists or existed."""
        was_encrypted = self.passphrase is not None and not (self.folder / PLAIN).exists()
        encrypted = self.is_encrypted or was_encrypted
        return self.folder / (ENCRYPTED if encrypted else PLAIN)

    @property
    def is_encrypted(self) -> bool:
        """Return whether the chats are encrypted, also if only their backups are left."""
        if (self.folder / ENCRYPTED).exists():
            return True
        left = copies_of(self.folder, "") or recovered(self.folder, "").exists()
        return not (self.folder / PLAIN).exists() and bool(left)

    @property
    def is_locked(self) -> bool:
        """Return whether a passphrase is needed and not known yet."""
        return self.passphrase is None and self.is_encrypted

    @property
    def key(self) -> str | None:
        """Return the passphrase of the present database, None if it needs none."""
        return self.passphrase if self.path.name == ENCRYPTED else None

    def unlock(self, passphrase: str, *, is_right: bool = False) -> None:
        """Keep the passphrase for later connections; raises `WrongPassphrase`.

        If `is_right`, the passphrase is known to be correct, so a file that it does not open is
        damaged.
        """
        # From here on no other program converts the file.
        self._lock.share()
        if self.is_encrypted:
            if not is_right:
                if is_lost(self.folder, passphrase):  # opening it would create it anew
                    raise WrongPassphrase
                self._open(self.folder / ENCRYPTED, passphrase).close()
            self.passphrase, self._is_right = passphrase, True

    def connect(self) -> Connection:
        """Return a connection to the current schema, creating the database if needed.

        Raises `HistoryLocked`, `HistoryError` for a newer version or another program's database,
        or an error of the database. A missing or empty file beside a backup is damage.
        Until `leave` no other program encrypts or decrypts the chats.
        """
        if self.is_locked:
            raise HistoryLocked
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        self._lock.share()
        if self.is_locked:  # another program has encrypted them meanwhile
            raise HistoryLocked
        return self._connect()

    def _connect(self) -> Connection:
        """Return a connection; the caller shares the folder lock or holds it exclusively."""
        path = self.path
        if path.name == ENCRYPTED and path.exists() and (self.folder / PLAIN).exists():
            # After a crash during encryption or decryption, the encrypted file is valid.
            wipe_file(self.folder / PLAIN)
        self.put_recovered()  # a program was killed after it had set the damaged file aside
        if is_lost(self.folder, self.key):
            raise damage("the file is missing or empty")
        make_private(path)
        with closed_on_error(self._open(path, self.key)) as connection:
            if version(connection) == 0:
                if copies_of(self.folder, self.key):
                    raise damage("the tables are missing")
                sync_names(self.folder)
                for parent in self.folder.parents[:2]:
                    with suppress(PermissionError):
                        sync_names(parent)
            migrate(connection)
            return connection

    def leave(self) -> None:
        """Release the folder lock, so that other programs may encrypt or decrypt; all connections
        must be closed.
        """
        self._is_right = False
        self._lock.release()

    def encrypt(self, passphrase: str) -> None:
        """Encrypt the database, which no connection of this program may have open.

        Raises `HistoryError` if another program has it open, or SQLCipher is missing.
        """
        load_sqlcipher()
        self.connect().close()  # ensures that the file exists
        with self._exclusive():
            if self.is_encrypted:
                raise HistoryLocked
            self._connect().close()  # merges the log into the file
            try:
                encrypt_file(self.folder / PLAIN, self.folder / ENCRYPTED, passphrase)
            finally:
                if self.is_encrypted:  # even if the old file could not be wiped
                    self.passphrase = passphrase

    def decrypt(self) -> None:
        """Decrypt the database; raises as `encrypt` does."""
        passphrase = self.passphrase
        if passphrase is None:
            raise HistoryLocked
        with self._exclusive():
            if self.is_encrypted:
                self._connect().close()
                decrypt_file(self.folder / ENCRYPTED, self.folder / PLAIN, passphrase)
            self.passphrase = None

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        """Hold the folder exclusively; raises `HistoryError` if another program has it open."""
        if not self._lock.take():
            raise HistoryError("Another ingle has these chats open.", "Close it, then try again.")
        try:
            yield
        finally:
            self.leave()

    def unencrypted_leftovers(self) -> list[str]:
        """Return the names of damaged databases that were set aside unencrypted."""
        return sorted(path.name for path in self.folder.glob("history.damaged-*.db"))

    def set_aside(self) -> str | None:
        """Rename the damaged database, so that a new one can be created; return its new name.

        Returns None if there is no file.
        """
        path = self.path
        self.replaced += 1
        if not os.path.lexists(path):
            return None
        stamp = time.strftime("%Y%m%d-%H%M%S")
        target = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
        number = 1
        while target.exists():
            number += 1
            target = path.with_name(f"{path.stem}.damaged-{stamp}-{number}{path.suffix}")
        path.rename(target)
        for source, moved in zip(companions(path), companions(target), strict=True):
            if source.exists():
                source.rename(moved)
        return target.name

    def put_recovered(self) -> None:
        """Put a recovered database in the place of a missing one, if there is one.

        Another program that was faster has its own.
        """
        path, new = self.path, recovered(self.folder, self.key)
        if path.exists() or not new.exists():
            return
        for stale in companions(path):  # of the file that was set aside
            stale.unlink(missing_ok=True)
        try:
            os.link(new, path)
            new.unlink()
        except FileExistsError:
            return
        except OSError:  # the file system has no hard links
            new.rename(path)
        sync_names(self.folder)

    def _open(self, path: Path, passphrase: str | None) -> Connection:
        with closed_on_error(open_file(path, passphrase)) as connection:
            if passphrase is not None:
                _check_key(connection, self._is_right)
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            _use_wal(connection)
            # Commits must be on the disk: at most four a second in a thread of their own cost no
            # waiting, and a power cut loses no more than kill -9 does.
            connection.execute("PRAGMA synchronous = FULL")
            return connection


def _use_wal(connection: Connection) -> None:
    """Switch a new file to WAL; SQLite's own busy timeout does not cover two programs that do so
    at once.
    """
    deadline = time.monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except database_errors() as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def _check_key(connection: Connection, is_right: bool) -> None:
    """Read the file; raises `WrongPassphrase` if that fails, unless the key `is_right`."""
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except database_errors() as error:
        if is_damage(error) and not is_right:
            raise WrongPassphrase from error
        raise


def database_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that the database libraries in use raise."""
    import sqlite3

    cipher = sys.modules.get("sqlcipher3.dbapi2")
    return (sqlite3.Error,) if cipher is None else (sqlite3.Error, cipher.Error)


def damage(found: str) -> Exception:
    """Return an error that `is_damage` accepts, for the result of a file check."""
    import sqlite3

    return sqlite3.DatabaseError(f"malformed: {found}")


def is_damage(error: BaseException) -> bool:
    """Return whether the file itself is damaged, or is not a database."""
    text = str(error)
    return "malformed" in text or "not a database" in text


def is_conflict(error: BaseException) -> bool:
    """Return whether the row to be written violates a constraint."""
    return type(error).__name__ == "IntegrityError"


def is_unwritable(error: BaseException) -> bool:
    """Return whether the data itself cannot be written, so that a retry is useless."""
    own = type(error).__name__ in ("DataError", "InterfaceError", "ProgrammingError")
    return own or not isinstance(error, (OSError, *database_errors()))


def _is_busy(error: BaseException) -> bool:
    text = str(error)
    return "locked" in text or "busy" in text


def storage_trouble(error: BaseException) -> str:
    """Return why storage failed, as the end of a user-facing sentence."""
    text = str(error)
    if "disk I/O error" in text:  # SQLite reports a full disk so where it shares memory
        return "the disk is full, or fails"
    if "full" in text or getattr(error, "errno", None) == 28:
        return "the disk is full"
    if "readonly" in text or "unable to open" in text or isinstance(error, OSError):
        return "the folder of the chats cannot be written to"
    if _is_busy(error):
        return "another program holds the chats"
    if isinstance(error, HistoryError):
        return error.message
    return text or type(error).__name__
