"""Remembers, as hashes only, conversations with sensitive content and text derived from them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.requests import GenerateRequest
from ingle.models.durable_folder import make_durable_folder, sync_folder

from ..detectors.finding import Sensitivity, TextPart
from ..inspection.request_inspector import InspectedRequest
from .policy import Classified, strictest
from .sensitivity_classes import TOPICS

if TYPE_CHECKING:
    import sqlite3

log = logging.getLogger("ingle.daemon")

KEPT_MARKS = 100_000
KEPT_SECONDS = 180 * 86_400
KEPT_IN_MEMORY = 10_000
SHORTEST_TEXT = 40
"""Characters from which two texts are unlikely to be equal by chance; greetings are shorter."""

_IN_MESSAGE = re.compile(
    r"messages\[(\d+)\]\.(?:content$|reasoning$|tool_calls\[\d+\]\.(?:name|arg))"
)
"""Places whose text the digest of a message covers, or that it follows from."""

_WORD = re.compile(r"[^\W_][\w.+~@#$%^*!-]{6,254}\w")
_AT_ONCE = 500
_CLASSES = tuple(Sensitivity)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS key (key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS marks (
    trace BLOB PRIMARY KEY, class INTEGER NOT NULL, seen INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS marks_by_age ON marks (seen);
"""


class TaintStore:
    """Marks by keyed hashes, in a database of mode 0600; every method blocks and is thread-safe.

    Errors of the file are raised (`sqlite3.Error`, `OSError`): a caller that cannot know the taint
    of a conversation must assume the strictest.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._key = b""
        self._opened: int | None = None
        self._private_key = secrets.token_bytes(32)
        self._private: OrderedDict[bytes, Sensitivity] = OrderedDict()

    def strictest(self, traces: Sequence[bytes]) -> Sensitivity | None:
        """Return the strictest class that any of these traces is marked with; None if none is."""
        with self._lock:
            found: list[Sensitivity] = []
            for trace in traces:
                if (seen := self._private.get(self._private_of(trace))) is not None:
                    found.append(seen)
            database = self._open()
            keyed = [self._keyed(trace) for trace in traces]
            for start in range(0, len(keyed), _AT_ONCE):
                some = keyed[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                row: tuple[int | None] = database.execute(
                    f"SELECT min(class) FROM marks WHERE trace IN ({marks})",  # noqa: S608 - question marks
                    some,
                ).fetchone()
                if row[0] is not None:
                    found.append(_CLASSES[row[0]])
        return min(found, key=_CLASSES.index, default=None)

    def mark(
        self, traces: Iterable[bytes], sensitivity: Sensitivity, *, private: bool = False
    ) -> None:
        """Mark traces with this class; `private` ones only in memory."""
        with self._lock:
            if private:
                for trace in map(self._private_of, traces):
                    before = self._private.pop(trace, sensitivity)
                    self._private[trace] = min(before, sensitivity, key=_CLASSES.index)
                while len(self._private) > KEPT_IN_MEMORY:
                    self._private.popitem(last=False)
                return
            database, now = self._open(), int(self._clock())
            rank = _CLASSES.index(sensitivity)
            rows = [(self._keyed(trace), rank, now) for trace in traces]
            with database:
                database.executemany(
                    "INSERT INTO marks VALUES (?, ?, ?) ON CONFLICT (trace) DO UPDATE "
                    "SET class = min(class, excluded.class), seen = excluded.seen",
                    rows,
                )
                self._drop_old(database, now)

    def forget(self) -> int:
        """Erase every mark; returns the number of those on disk."""
        with self._lock:
            self._private.clear()
            if self._database is None and not self._path.exists():
                return 0
            database = self._open()
            with database:
                count = database.execute("DELETE FROM marks").rowcount
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return count

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _open(self) -> sqlite3.Connection:
        if self._database is not None and self._file() == self._opened:
            return self._database
        if self._database is not None:  # the file was erased, and its marks with it
            self._database.close()
            self._database = None
        import sqlite3

        make_durable_folder(self._path.parent, mode=0o700)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        self._path.chmod(0o600)  # the -wal and -shm files inherit this mode
        database = sqlite3.connect(self._path, check_same_thread=False, timeout=2.0)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA secure_delete = ON")
            database.executescript(_SCHEMA)
            with database, closing(database.cursor()) as cursor:
                cursor.execute("BEGIN IMMEDIATE")
                row = cursor.execute("SELECT key FROM key").fetchone()
                if row is None:
                    row = (secrets.token_bytes(32),)
                    cursor.execute("INSERT INTO key VALUES (?)", row)
            sync_folder(self._path.parent)  # SQLite ignores that its own sync of the names failed
            # Pages of the log whose sync has failed count as written: write them elsewhere.
            database.execute("PRAGMA wal_checkpoint")
        except BaseException:
            database.close()
            raise
        self._database, self._key, self._opened = database, row[0], self._file()
        return database

    def _file(self) -> int | None:
        """Return the inode of the file that is there now."""
        try:
            return self._path.stat().st_ino
        except FileNotFoundError:
            return None

    def _drop_old(self, database: sqlite3.Connection, now: int) -> None:
        database.execute("DELETE FROM marks WHERE seen < ?", (now - KEPT_SECONDS,))
        (count,) = database.execute("SELECT count(*) FROM marks").fetchone()
        if count > KEPT_MARKS:
            database.execute(
                "DELETE FROM marks WHERE trace IN (SELECT trace FROM marks ORDER BY seen LIMIT ?)",
                (count - KEPT_MARKS * 9 // 10,),
            )

    def _keyed(self, trace: bytes) -> bytes:
        return hashlib.blake2b(trace, key=self._key, digest_size=16).digest()

    def _private_of(self, trace: bytes) -> bytes:
        return hashlib.blake2b(trace, key=self._private_key, digest_size=16).digest()


class ConversationMarks:
    """The marks in a taint store; text derived from a marked conversation stays local too."""

    def __init__(self, store: TaintStore) -> None:
        self._store = store

    async def mark(
        self,
        inspected: Sequence[tuple[InspectedRequest, Sequence[Classified]]],
        sensitivity: Sensitivity,
    ) -> None:
        """Mark the conversations of requests, each with its sensitive findings."""
        traces = await asyncio.to_thread(
            lambda: [t for one, classified in inspected for t in marks_of(one, classified)]
        )
        await self.write(traces, sensitivity, private=False)

    async def mark_private(self, requests: Sequence[GenerateRequest]) -> None:
        """Mark conversations as private, in memory only, by all of their messages."""
        traces = await asyncio.to_thread(
            lambda: [t for each in requests for t in (*_named(each), *message_chain(each))]
        )
        await self.write(traces, Sensitivity.NEVER, private=True)

    async def write(
        self, traces: Sequence[bytes], sensitivity: Sensitivity, *, private: bool
    ) -> None:
        """Mark these traces of a conversation; a failure is logged."""
        try:
            await asyncio.to_thread(self._store.mark, traces, sensitivity, private=private)
        except Exception as error:
            # The request's own content is found again; only text derived from it may not be.
            log.warning(
                "A conversation could not be marked as sensitive (%s)", type(error).__name__
            )

    async def strictest(self, inspected: Sequence[InspectedRequest]) -> Sensitivity | None:
        """Return the strictest mark of the conversations; `UNINSPECTABLE` if it cannot be read."""
        try:
            return await asyncio.to_thread(self._strictest, inspected)
        except Exception as error:
            log.warning(
                "Marks of sensitive conversations cannot be read (%s)", type(error).__name__
            )
            return Sensitivity.UNINSPECTABLE

    def _strictest(self, inspected: Sequence[InspectedRequest]) -> Sensitivity | None:
        traces = [t for one in inspected for t in request_traces(one.request, one.parts)]
        return self._store.strictest(traces)


def request_traces(request: GenerateRequest, parts: Sequence[TextPart]) -> list[bytes]:
    """Return all traces by which a request may continue, or quote, what was marked."""
    traces = [*_named(request), *message_chain(request)]
    for part in parts:
        traces += text_traces(part.text)
        traces += _value_traces(part.text)
    return traces


def marks_of(inspected: InspectedRequest, classified: Sequence[Classified]) -> list[bytes]:
    """Return the traces to mark for these findings in a request: its conversation's name, the
    values that must never leave, and the messages from the first on that holds one of the
    strictest class.

    Nothing else is marked: the same question without what was found is another conversation. What
    is less strict, such as a path in an agent's instructions, is found again.
    """
    traces = [*_named(inspected.request)]
    worst = strictest(one.sensitivity for one in classified)
    first: list[int] = []
    for one in classified:
        finding = one.finding
        if finding.start == finding.end:
            continue  # it is about no text
        part = inspected.parts[finding.part]
        place = _IN_MESSAGE.match(part.where)
        if place and one.sensitivity is worst:
            first.append(int(place[1]))
        if one.sensitivity is Sensitivity.NEVER and finding.kind not in TOPICS:
            traces += _value_traces(part.text[finding.start : finding.end])
    return traces + (message_chain(inspected.request)[min(first) :] if first else [])


def _named(request: GenerateRequest) -> list[bytes]:
    return [_trace("conversation", request.conversation)] if request.conversation else []


def _value_traces(text: str) -> Iterator[bytes]:
    """Yield traces of the words that are unlikely to be equal by chance, such as passwords."""
    for word in set(_WORD.findall(text)):
        if any(map(str.isdecimal, word)) and any(map(str.isalpha, word)):
            yield _trace("value", word)


def text_traces(text: str) -> Iterator[bytes]:
    """Yield traces of a text as a whole and of each of its lines, if long enough to be
    distinctive.
    """
    whole = " ".join(text.split())
    if len(whole) < SHORTEST_TEXT:
        return
    yield _trace("text", whole)
    lines = text.splitlines()
    if len(lines) > 1:
        for line in lines:
            plain = " ".join(line.split())
            if len(plain) >= SHORTEST_TEXT:
                yield _trace("text", plain)


def message_chain(request: GenerateRequest) -> list[bytes]:
    """Return a digest per message that covers all messages up to it."""
    chain: list[bytes] = []
    before = b""
    for message in request.messages or []:
        before = hashlib.sha256(before + _trace("message", _said(message))).digest()
        chain.append(before)
    return chain


def _said(message: ChatMessage) -> str:
    # Clients send back less than they got: reasoning is dropped, and white space is trimmed.
    calls = [f"{call.name}\0{call.arguments}" for call in message.tool_calls]
    return "\0".join([message.role, message.content.strip(), *calls])


def _trace(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"{kind}\0{text}".encode("utf-8", "surrogatepass")).digest()
