"""`Database`: the file the chats are kept in, and connections to it."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .database_encryption import (
    COMPANIONS,
    decrypt_file,
    encrypt_file,
    load_sqlcipher,
    quoted,
    wipe_file,
)
from .folder_lock import FolderLock
from .history_errors import HistoryError, HistoryLocked, WrongPassphrase
from .private_file import make_private
from .schema import migrate

if TYPE_CHECKING:
    from sqlite3 import Connection

PLAIN = "history.db"
ENCRYPTED = "history.sqlcipher.db"
BUSY_MILLISECONDS = 5000
"""How long another program of the same user may hold the database before writing is put off."""


class Database:
    """Opens connections; nothing is read or made before the first.

    The folder is for its owner only (0700), and so are the files (0600). Every connection may be
    used from any thread, by one at a time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._passphrase: str | None = None
        self._is_right = False
        self._lock = FolderLock(folder)

    @property
    def path(self) -> Path:
        """The database as it is now: the encrypted one where there is or was one."""
        was_encrypted = self._passphrase is not None and not (self.folder / PLAIN).exists()
        encrypted = self.is_encrypted or was_encrypted
        return self.folder / (ENCRYPTED if encrypted else PLAIN)

    @property
    def is_encrypted(self) -> bool:
        return (self.folder / ENCRYPTED).exists()

    @property
    def is_locked(self) -> bool:
        """Whether a passphrase is needed and not known yet."""
        return self._passphrase is None and self.is_encrypted

    @property
    def passphrase(self) -> str | None:
        """What opens the database, None where nothing is needed or it is not known."""
        return self._passphrase

    @property
    def key(self) -> str | None:
        """The passphrase of the database as it is now, None where it needs none."""
        return self._passphrase if self.path.name == ENCRYPTED else None

    def unlock(self, passphrase: str, *, is_right: bool = False) -> None:
        """Keep the passphrase for later connections; raises `WrongPassphrase`.

        Where the passphrase `is_right` for sure, a file that it does not open is damaged.
        """
        # From here on nobody else makes another file of it.
        self._lock.share()
        if self.is_encrypted:
            if not is_right:
                self._open(self.folder / ENCRYPTED, passphrase).close()
            self._passphrase, self._is_right = passphrase, True

    def connect(self) -> Connection:
        """A connection to tables of this version, made where there is no database yet.

        Raises `HistoryLocked`, `HistoryError` for a newer version, or an error of the database.
        Until `leave` no other program encrypts or decrypts the chats.
        """
        if self.is_locked:
            raise HistoryLocked
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        self._lock.share()
        if self.is_locked:  # another program has encrypted them while this one waited
            raise HistoryLocked
        return self._connect()

    def _connect(self) -> Connection:
        """A connection for one who shares the folder, or has it alone."""
        path, passphrase = self.path, self.key
        if path.name == ENCRYPTED and path.exists() and (self.folder / PLAIN).exists():
            # A crash in the middle of encrypting, or of the way back: the encrypted one counts.
            wipe_file(self.folder / PLAIN)
        make_private(path)
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        connection = self._open(path, passphrase)
        try:
            migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def leave(self) -> None:
        """Let other programs encrypt or decrypt the chats; no connection may be open any more."""
        self._is_right = False
        self._lock.release()

    def encrypt(self, passphrase: str) -> None:
        """Encrypt the database, which nobody in this program may hold open meanwhile.

        Raises `HistoryError` where another program has it open, or SQLCipher is missing.
        """
        load_sqlcipher()
        self.connect().close()  # so that there is one
        with self._alone():
            if self.is_encrypted:
                raise HistoryLocked
            self._connect().close()  # which puts the log into the file
            try:
                encrypt_file(self.folder / PLAIN, self.folder / ENCRYPTED, passphrase)
            finally:
                if self.is_encrypted:  # even if the old file could not be wiped
                    self._passphrase = passphrase

    def decrypt(self) -> None:
        """Keep the chats in the clear again; raises as `encrypt` does."""
        passphrase = self._passphrase
        if passphrase is None:
            raise HistoryLocked
        with self._alone():
            if self.is_encrypted:
                self._connect().close()
                decrypt_file(self.folder / ENCRYPTED, self.folder / PLAIN, passphrase)
            self._passphrase = None

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Have the folder alone; raises `HistoryError` where another program has it open."""
        if not self._lock.take():
            raise HistoryError("Another ingle has these chats open.", "Close it, then try again.")
        try:
            yield
        finally:
            self.leave()

    def left_in_the_clear(self) -> list[str]:
        """Names of databases that were set aside as damaged, which stay as they were."""
        return sorted(path.name for path in self.folder.glob("history.damaged-*.db"))

    def set_aside(self) -> Path:
        """Rename the damaged database, so that a new one can begin; returns where it is now."""
        path = self.path
        stamp = time.strftime("%Y%m%d-%H%M%S")
        target = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
        number = 1
        while target.exists():
            number += 1
            target = path.with_name(f"{path.stem}.damaged-{stamp}-{number}{path.suffix}")
        path.rename(target)
        for companion in COMPANIONS:
            source = path.with_name(path.name + companion)
            if source.exists():
                source.rename(target.with_name(target.name + companion))
        return target

    def _open(self, path: Path, passphrase: str | None) -> Connection:
        connection = _connect(path, encrypted=passphrase is not None)
        try:
            if passphrase is not None:
                _give_key(connection, passphrase, self._is_right)
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA journal_mode = WAL")
            # A commit is on the disk, not only with the system: at most four a second, in a
            # thread of their own, so the wait costs nobody anything, and a power cut loses no
            # more than kill -9 does.
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection


def _connect(path: Path, *, encrypted: bool) -> Connection:
    if encrypted:
        return load_sqlcipher().connect(
            str(path), timeout=0, isolation_level=None, check_same_thread=False
        )
    import sqlite3

    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)


def _give_key(connection: Connection, passphrase: str, is_right: bool) -> None:
    connection.execute(f"PRAGMA key = {quoted(passphrase)}")
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except database_errors() as error:
        if is_damage(error) and not is_right:
            raise WrongPassphrase from error
        raise


def database_errors() -> tuple[type[Exception], ...]:
    """What the database libraries in use raise."""
    import sqlite3

    cipher = sys.modules.get("sqlcipher3.dbapi2")
    return (sqlite3.Error,) if cipher is None else (sqlite3.Error, cipher.Error)


def damage(found: str) -> Exception:
    """An error for `is_damage`, for what a check of the file found."""
    import sqlite3

    return sqlite3.DatabaseError(f"malformed: {found}")


def is_damage(error: BaseException) -> bool:
    """Whether the file itself is broken, or is no database."""
    text = str(error)
    return "malformed" in text or "not a database" in text


def is_conflict(error: BaseException) -> bool:
    """Whether what should be written does not fit what is there."""
    return type(error).__name__ == "IntegrityError"


def is_unwritable(error: BaseException) -> bool:
    """Whether it is what should be written that fails, so that trying again cannot help."""
    own = type(error).__name__ in ("DataError", "InterfaceError", "ProgrammingError")
    return own or not isinstance(error, (OSError, *database_errors()))


def storage_trouble(error: BaseException) -> str:
    """Why nothing can be written, as the end of a sentence for people."""
    text = str(error)
    if "full" in text or getattr(error, "errno", None) == 28:
        return "the disk is full"
    if "readonly" in text or "unable to open" in text or isinstance(error, OSError):
        return "the folder of the chats cannot be written to"
    if "locked" in text or "busy" in text:
        return "another program holds the chats"
    if isinstance(error, HistoryError):
        return error.message
    return text or type(error).__name__
