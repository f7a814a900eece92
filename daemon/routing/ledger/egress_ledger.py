"""The egress ledger: append-only, hash-chained, without any content.

One file per month, one line per entry. Each line has the SHA-256 of the previous one, across
months; the head of the chain is also stored in a second place, so that a missing end is detected.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.receipt import Receipt
from ingle.models.durable_folder import make_durable_folder, sync_folder
from ingle.models.failpoints import failpoint
from ingle.models.file_lock import FileLock
from ingle.models.struct_preparation import prepared

from ...stores.atomic_file import write_atomically
from ..providers.provider_errors import LedgerUnwritable
from .ledger_entries import (
    DECODER,
    GENESIS,
    LedgerEntry,
    LedgerIntent,
    LedgerNote,
    LedgerSettlement,
    Line,
    encode,
    line_digest,
)

_LOCK_SECONDS = 10.0
_TAIL = 2**20
"""Bytes at the end of a file that certainly include its last line."""


class LedgerHead(msgspec.Struct, frozen=True):
    """The head of the chain, and the secret that pseudonymises conversations."""

    seq: int
    digest: str
    salt: str


class BudgetReservation(msgspec.Struct, frozen=True, kw_only=True):
    """The upper limit of a request's tokens and cost; `cost` is None if its price is unknown."""

    tokens: int
    cost: float | None
    currency: str


class Ledger:
    """One ledger; all calls block, and threads and processes may share it."""

    def __init__(self, folder: Path, head: Path) -> None:
        """`folder` holds the monthly files, `head` is the second place."""
        self.folder = folder
        self.head_path = head
        self.on_settled: Callable[[LedgerEntry], None] = lambda entry: None
        self._lock = threading.RLock()
        self._held = 0
        self._end: tuple[Path, int] | None = None
        """The last written file and its size, to detect writes by other processes."""
        self._seq = 0
        self._digest = GENESIS
        self._salt = ""
        self._pending: list[tuple[LedgerIntent, Receipt, float | None]] = []

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Hold the ledger's lock; raises `LedgerUnwritable`."""
        with self._lock:
            if self._held:
                yield
                return
            lock = self._file_lock()
            self._held += 1
            try:
                yield
            finally:
                self._held -= 1
                lock.release()

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Hold the lock and know the end of the chain; raises `LedgerUnwritable`."""
        with self.exclusive():
            try:
                self._catch_up()
                yield
            except OSError as error:
                raise self._unwritable(error.strerror or str(error)) from error

    def intend(self, clearance: Clearance, reserved: BudgetReservation) -> LedgerIntent:
        """Record what is about to leave; on disk when this returns.

        Raises `LedgerUnwritable`, and then nothing may leave.
        """
        with self._writing():
            self._settle_pending()
            intent = LedgerIntent(
                **self._heading(),
                provider=clearance.provider,
                model=clearance.model,
                verdict=clearance.verdict,
                rule=clearance.rule,
                classes=clearance.classes,
                redacted=clearance.redacted,
                conversation=self._anonymous(clearance.conversation),
                reserved_tokens=reserved.tokens,
                reserved_cost=reserved.cost,
                currency=reserved.currency,
                choice=clearance.choice,
            )
            self._append(intent)
        return intent

    def settle(self, intent: LedgerIntent, receipt: Receipt, cost: float | None) -> None:
        """Record the outcome; if that fails now, it is written with the next entry."""
        with self._lock:
            self._pending.append((intent, receipt, cost))
            with self._writing():
                self._settle_pending()

    def forget_before(self, month: str) -> int:
        """Erase the files of the months before `month` ("2026-11"); returns the number of their
        entries.

        The chain continues: a note records up to where it was erased. Raises `LedgerUnwritable`.
        """
        with self.exclusive():
            month = min(month, _now()[:7])  # budgets still need the current month
            gone = [path for path in self.files() if path.stem < month]
            if not gone:
                return 0
            count = sum(
                isinstance(line, LedgerIntent) for path in gone for line in read_lines(path)
            )
            with self._writing():
                last = _last_line(gone[-1]) or b""
                until = DECODER.decode(last).seq
                if len(gone) == len(self.files()):
                    self._end = None
                note = LedgerNote(
                    **self._heading(), what="forgotten", until=until, digest=line_digest(last)
                )
                self._append(note)
                for path in gone:
                    path.unlink()
                sync_folder(self.folder)
        return count

    def files(self) -> list[Path]:
        """Return the files of all months, oldest first."""
        return sorted(self.folder.glob("[0-9][0-9][0-9][0-9]-[0-9][0-9].jsonl"))

    def entries(self, month: str | None = None) -> list[LedgerEntry]:
        """Return the entries of a month ("2026-11"), or all, oldest first."""
        files = self.files()
        intents: dict[int, LedgerIntent] = {}
        settled: dict[int, LedgerSettlement] = {}
        for path in files:
            if month is not None and path.stem < month:
                continue
            for line in read_lines(path):
                if isinstance(line, LedgerSettlement):
                    settled[line.of] = line
                elif isinstance(line, LedgerIntent) and month in (None, line.time[:7]):
                    intents[line.seq] = line
            if month is not None and path.stem > month and intents.keys() <= settled.keys():
                break
        return [LedgerEntry.of(intent, settled.get(seq)) for seq, intent in intents.items()]

    def _file_lock(self) -> FileLock:
        lock = FileLock(self.folder / "lock")
        deadline = time.monotonic() + _LOCK_SECONDS
        try:
            make_durable_folder(self.folder, mode=0o700)
            while not lock.try_acquire():
                if time.monotonic() > deadline:
                    raise self._unwritable("another process holds it")
                time.sleep(0.005)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        return lock

    def _catch_up(self) -> None:
        """Find the end of the chain, if this process does not know it."""
        files = self.files()
        last = next((path for path in reversed(files) if path.stat().st_size), None)
        if last is None:
            if self._read_head().seq:
                raise self._unwritable(f"its files are gone, but {self.head_path} refers to them")
            self._end, self._seq, self._digest = None, 0, GENESIS
            return
        size = last.stat().st_size
        if self._end == (last, size):
            return
        torn = _cut_torn_line(last)
        line = _last_line(last)
        if line is None:  # the incomplete line was the only one
            last.unlink()
            self._catch_up()
        else:
            try:
                self._seq = DECODER.decode(line).seq
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise self._unwritable("its last line was altered") from None
            self._digest = line_digest(line)
            self._end = (last, last.stat().st_size)
            self._read_head()
        if torn:
            note = LedgerNote(**self._heading(), what="torn", bytes=torn)
            self._append(note, month=last.stem)

    def _settle_pending(self) -> None:
        while self._pending:
            intent, receipt, cost = self._pending[0]
            usage = receipt.usage
            line = LedgerSettlement(
                **self._heading(),
                of=intent.seq,
                bytes_out=receipt.bytes_sent,
                bytes_in=receipt.bytes_received,
                prompt_tokens=usage.prompt if usage is not None else None,
                completion_tokens=usage.completion if usage is not None else None,
                cost=cost,
                seconds=round(receipt.seconds, 3),
                outcome=str(receipt.outcome),
                status=receipt.status,
                attempts=receipt.attempts,
                sent_sha256=receipt.digests,
                first_seconds=receipt.first_seconds and round(receipt.first_seconds, 3),
            )
            self._append(line)
            self._pending.pop(0)
            self.on_settled(LedgerEntry.of(intent, line))

    def _append(self, line: Line, month: str | None = None) -> None:
        """Append durably to the file of `month`, by default that of the line's time."""
        month = month or line.time[:7]
        if self._end is not None:  # if the clock goes back, it still follows the existing lines
            month = max(month, self._end[0].stem)
        path = self.folder / f"{month}.jsonl"
        data = encode(line)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(fd).st_size
            try:
                failpoint("ledger.append")
                if os.write(fd, data) != len(data):
                    raise OSError(errno.ENOSPC, "No space left on device")
                os.fsync(fd)
                if not size:
                    sync_folder(self.folder)
                self._write_head(LedgerHead(line.seq, line_digest(data), self._salt))
            except OSError:
                self._end = None
                head = read_head(self.head_path)
                if head is None or head.seq < line.seq:  # else the head refers to it already
                    with suppress(OSError):  # an incomplete line is detected before the next write
                        os.ftruncate(fd, size)
                raise
        finally:
            os.close(fd)
        self._seq, self._digest = line.seq, line_digest(data)
        self._end = (path, size + len(data))

    def _heading(self) -> dict[str, Any]:
        """Return the number, the time and the predecessor of the next line."""
        return {"seq": self._seq + 1, "time": _now(), "previous": self._digest}

    def _read_head(self) -> LedgerHead:
        head = read_head(self.head_path)
        if head is None:
            head = LedgerHead(0, GENESIS, self._salt or secrets.token_hex(16))
        self._salt = head.salt
        return head

    def _write_head(self, head: LedgerHead) -> None:
        """Replace the head; after a crash it may be behind the lines, but never ahead."""
        write_atomically(self.head_path, msgspec.json.encode(head))

    def _anonymous(self, conversation: str) -> str:
        """Return a pseudonym that is constant per conversation, and cannot be reversed."""
        if not conversation:
            return ""
        key, text = bytes.fromhex(self._salt), conversation.encode("utf-8", "surrogatepass")
        return hmac.new(key, text, hashlib.sha256).hexdigest()[:32]

    def _unwritable(self, why: str) -> LedgerUnwritable:
        return LedgerUnwritable(
            f"The ledger in {self.folder} cannot be written: {why}.",
            hint="Nothing leaves this machine without an entry; see `ingle ledger verify`.",
        )


def read_head(path: Path) -> LedgerHead | None:
    """Return the stored head; None if it is missing or unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=prepared(LedgerHead))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the complete lines of a file with their line ends; an incomplete last one is
    left out.
    """
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line
    except FileNotFoundError:
        return  # it was just erased


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the entries of a file; damaged lines are left out, `verify` reports them."""
    for line in raw_lines(path):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            yield DECODER.decode(line)


def _last_line(path: Path) -> bytes | None:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        lines = file.read().splitlines()
    return lines[-1] if lines else None


def _cut_torn_line(path: Path) -> int:
    """Remove an incomplete last line; returns the number of removed bytes."""
    with path.open("rb+") as file:
        size = path.stat().st_size
        start = max(0, size - _TAIL)
        file.seek(start)
        tail = file.read()
        if tail.endswith(b"\n"):
            return 0
        whole = start + tail.rfind(b"\n") + 1
        file.truncate(whole)
    return size - whole


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
