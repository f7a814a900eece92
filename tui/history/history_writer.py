"""The thread that commits recorded changes to the database in order."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from .database import row_writes
from .database.backup import Backup, check_for, is_due, wipe_backups, wipe_deleted
from .database.database import (
    Database,
    damage,
    database_errors,
    is_conflict,
    is_damage,
    is_unwritable,
    storage_trouble,
)
from .database.history_errors import HistoryError, HistoryLocked
from .database.history_files import copy_of, sync_names
from .database.text_index import repair_index
from .database.transactions import closed_on_error, savepoint, write_transaction

if TYPE_CHECKING:
    from sqlite3 import Connection

INTERVAL = 0.4
"""Seconds between commits while records arrive."""
CHECK_SECONDS = 0.25
"""Seconds of the file check before the first write."""
BACKUP_AFTER = 20.0
"""Seconds after the first record before a backup may start."""
BACKUP_PAUSE = 3600.0
"""Seconds between checks whether a backup is due."""
RETRY = 2.0
"""Seconds before a failed write is retried."""

LOCKED_MEANWHILE = (
    "Another ingle has encrypted the chats. New messages are held in memory until /encrypt has the "
    "passphrase."
)

CHAT_GONE = "This chat was deleted in another window; new messages in it are not kept."
NOT_KEPT = "A message could not be kept:"

Note = Callable[["Connection"], object]
P = ParamSpec("P")


class _Piece:
    """Pending text of an answer; further text is appended to it."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.texts: list[str] = []
        self.thoughts: list[str] = []

    def __call__(self, connection: Connection) -> None:
        text, thought = row_writes.storable("".join(self.texts)), "".join(self.thoughts)
        row_writes.add_piece(connection, self.message, text, row_writes.storable(thought))


class HistoryWriter:
    """Queues records without waiting; a thread commits them at most `INTERVAL` later.

    The database is opened with the first record. Records that cannot be written are kept and
    retried; `on_trouble` is called once, in this thread. While the database is locked, records wait
    in memory.
    """

    def __init__(self, database: Database, on_trouble: Callable[[str], None]) -> None:
        self._database = database
        self._on_trouble = on_trouble
        self._changed = threading.Condition()
        self._notes: list[Note] = []
        self._growing: dict[str, _Piece] = {}
        self._taken = 0
        self._written = 0
        self._hurry = 0
        self._closing = False
        self._paused = 0
        self._writing = False
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._in_trouble = False
        self._has_reported = False
        self._refused = False
        self._session: int | None = None
        self._opened_at = 0.0
        self._backup: Backup | None = None

    @property
    def session(self) -> int:
        """Return the row of this program's session; only for records."""
        assert self._session is not None
        return self._session

    @property
    def is_able(self) -> bool:
        """Return whether records reach the disk, as far as known."""
        return not (self._has_reported or self._refused or self._database.is_locked)

    def put(
        self, note: Callable[Concatenate[Connection, P], object], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Queue a record: a function that is called with a connection and the arguments."""
        with self._changed:
            self._add(lambda connection: note(connection, *args, **kwargs))

    def put_after_text(
        self,
        message: str,
        note: Callable[Concatenate[Connection, P], object],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Queue a record about an answer, after all its queued text."""
        with self._changed:
            self._growing.pop(message, None)
            self.put(note, *args, **kwargs)

    def grow(self, message: str, text: str, reasoning: str) -> None:
        """Queue text of an answer."""
        with self._changed:
            piece = self._growing.get(message)
            if piece is None:
                piece = self._growing[message] = _Piece(message)
                self._add(piece)
            piece.texts.append(text)
            piece.thoughts.append(reasoning)

    def flush(self, seconds: float) -> bool:
        """Wait until all earlier records are written; return False on a timeout."""
        with self._changed:
            goal = self._taken
            if self._written >= goal or self._refused:
                return True
            if self._database.is_locked or self._in_trouble:
                return False
            self._hurry = goal
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._written >= goal or self._in_trouble or self._refused, seconds
            )
            return self._written >= goal

    def wake(self) -> None:
        """Retry now, for example with a passphrase or more disk space."""
        with self._changed:
            self._hurry = self._taken
            self._in_trouble = False
            self._changed.notify_all()

    def pause(self) -> bool:
        """Write pending records and close the database until `resume`; records then wait in memory.

        Returns False if the database is still being written.
        """
        self.flush(5.0)
        ended = self._backup is None or self._backup.stop(10.0)
        with self._changed:
            self._paused += 1
            self._changed.notify_all()
            return ended and self._changed.wait_for(
                lambda: self._connection is None and not self._writing, 10.0
            )

    def resume(self) -> None:
        """Continue after `pause`."""
        with self._changed:
            self._paused -= 1
            self._changed.notify_all()

    def close(self, seconds: float = 5.0) -> bool:
        """Write pending records and end the thread; return False if some could not be written."""
        with self._changed:
            self._closing = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(seconds)
        if self._backup is not None:
            self._backup.stop(1.0)
        return self._written >= self._taken or self._refused

    def _add(self, note: Note) -> None:
        if self._refused:
            return
        self._notes.append(note)
        self._taken += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="history", daemon=True)
            self._thread.start()
        elif len(self._notes) == 1:
            self._changed.notify_all()

    def _run(self) -> None:
        last = -INTERVAL
        while True:
            batch = self._next_batch(last)
            if batch is None:
                break
            last = time.monotonic()
            if not self._write(batch) and self._closing:
                break
        self._close_connection()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _next_batch(self, last: float) -> list[Note] | None:
        """Return the records to be written now, None at the end."""
        with self._changed:
            self._writing = False
            while True:
                if self._paused:
                    self._close_connection()
                    self._changed.notify_all()
                if self._closing and (not self._notes or self._database.is_locked):
                    return None
                ready = self._notes and not self._paused and not self._database.is_locked
                since = time.monotonic() - last
                wait = RETRY if self._in_trouble else INTERVAL
                hurried = self._hurry > self._written and not self._in_trouble
                if ready and (since >= wait or self._closing or hurried):
                    self._writing = True
                    batch, self._notes = self._notes, []
                    self._growing.clear()
                    return batch
                self._changed.wait(max(0.001, wait - since) if ready else None)

    def _write(self, batch: list[Note]) -> bool:
        """Commit a batch atomically, or requeue it and report why not."""
        try:
            connection = self._open()
            self._commit(connection, batch)
        except HistoryLocked:
            self._put_back(batch)
            self._report_once(LOCKED_MEANWHILE)
            return False
        except (HistoryError, OSError, *database_errors()) as error:
            return self._fail(batch, error)
        with self._changed:
            self._written += len(batch)
            recovered, self._has_reported, self._in_trouble = self._has_reported, False, False
            self._changed.notify_all()
        if recovered:
            self._on_trouble("Chats are kept again; nothing is missing.")
        wipe_deleted(connection)
        self._back_up()
        return True

    def _back_up(self) -> None:
        """Start the daily backup, once the program has run for a while."""
        database, now = self._database, time.monotonic()
        if now - self._opened_at < BACKUP_AFTER:
            return
        if self._backup is not None and self._backup.is_running:
            return
        self._opened_at = now + BACKUP_PAUSE - BACKUP_AFTER
        with suppress(*database_errors()):  # retried at the next check
            key = database.key
            if is_due(copy_of(database.folder, key), time.time()):
                self._backup = Backup(database.folder, key, self._on_trouble)

    def _commit(self, connection: Connection, batch: list[Note]) -> None:
        """Commit all but the records that cannot be written, so that one does not block the
        others.
        """
        left_out: list[Exception] = []
        with write_transaction(connection):
            for note in batch:
                try:
                    with savepoint(connection):
                        note(connection)
                except Exception as error:
                    if not is_conflict(error) and not is_unwritable(error):
                        raise
                    left_out.append(error)
        for error in left_out[-1:]:
            self._on_trouble(CHAT_GONE if is_conflict(error) else f"{NOT_KEPT} {error}")

    def _open(self) -> Connection:
        if self._connection is None:
            with closed_on_error(self._database.connect()) as connection:
                self._session = connection.execute(
                    "INSERT INTO sessions(pid, started) VALUES (?, ?)", (os.getpid(), time.time())
                ).lastrowid
            self._connection = connection
            self._opened_at = time.monotonic()
            folder = self._database.folder
            sync_names(folder)  # SQLite ignores that its own sync of the log's name failed
            # After a failed sync the kernel takes pages of the log for written, so that records
            # behind them would be lost with them: what was left there is written elsewhere.
            connection.execute("PRAGMA wal_checkpoint")
            wipe_backups(folder, but=copy_of(folder, self._database.key))  # none unencrypted
            if (found := check_for(connection, CHECK_SECONDS)) != "ok":
                raise damage(found)
            wipe_deleted(connection)
        return self._connection

    def _fail(self, batch: list[Note], error: BaseException) -> bool:
        self._close_connection()
        if is_damage(error):
            self._put_back(batch, in_trouble=not self._repair())
            return False
        if isinstance(error, HistoryError):
            self._refuse(error)
            return False
        self._put_back(batch, in_trouble=True)
        self._report_once(
            f"Chats cannot be kept now: {storage_trouble(error)}. "
            "New messages are held in memory, and written as soon as that works."
        )
        return False

    def _report_once(self, trouble: str) -> None:
        if not self._has_reported:
            self._has_reported = True
            self._on_trouble(trouble)

    def check(self) -> None:
        """Check the file for damage, since reading it failed."""
        self.put(repair_index)

    def _repair(self) -> bool:
        """Repair a damaged file, or start a new one; return False if neither is possible now."""
        try:
            with closing(self._database.connect()) as connection, write_transaction(connection):
                repair_index(connection)
        except (HistoryError, OSError, *database_errors()) as error:
            return is_damage(error) and self._recover()
        # It is sound now, or another program has set the damaged one aside.
        return True

    def _recover(self) -> bool:
        """Put a sound database in place of a damaged one, and report it."""
        from .database.recovery import recover

        try:
            self._on_trouble(str(recover(self._database)))
        except (OSError, *database_errors()) as error:
            self._report_once(f"The chats on the disk are damaged, and {storage_trouble(error)}.")
            return False
        return True

    def _refuse(self, error: HistoryError) -> None:
        with self._changed:
            self._refused = True
            self._notes.clear()
            self._growing.clear()
            self._changed.notify_all()
        self._on_trouble(error.message if error.hint is None else f"{error.message} {error.hint}")

    def _put_back(self, batch: list[Note], *, in_trouble: bool = False) -> None:
        with self._changed:
            self._notes[:0] = batch
            self._in_trouble = in_trouble
            self._changed.notify_all()
