"""The KV store: keys and values of ended sequences, in memory and on disk."""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...base.load_spec import KVStoreSpec
from .disk_tier import KVDisk
from .kv_chunk_file import CHUNK_TOKENS, FORMAT_VERSION, ChunkHeader, Data, StoredPart, Tokens
from .kv_chunk_tree import ChunkTree, KVChunk
from .memory_tier import MemoryTier

logger = logging.getLogger(__name__)

MIN_SAVED = 32
"""Fewer tokens at the end of a conversation are not worth a file."""

MIN_ON_DISK = CHUNK_TOKENS
"""Shorter conversations are computed again rather than written: that takes less than wearing out a
disk with the many small ones there are."""

_MOST_BACKLOG = 64 * 2**20
_INDEX_SECONDS = 5.0

OnRead = Callable[[list[StoredPart]], None]


class KVStore:
    """Stores keys and values of ended sequences by their tokens, in the chunks of a `ChunkTree`.

    Two threads do all that waits for the disk: one reads, one writes. A file that cannot be read
    counts as missing; after a failed write nothing more is written until the worker restarts.
    Methods may be called from any thread, and none of them waits for the disk, except that `match`
    waits until the index of the files is loaded.
    """

    def __init__(
        self, spec: KVStoreSpec, state_key: str, *, spare: Callable[[], int] | None = None
    ) -> None:
        """`state_key` names all but the weights that snapshots depend on; `spare`: `MemoryTier`."""
        text = f"{FORMAT_VERSION}\n{spec.model}\n{state_key}"
        self._tree = ChunkTree(hashlib.sha256(text.encode()).digest())
        self.memory = MemoryTier(spec.memory_bytes, spare=spare)
        self._disk = KVDisk(Path(spec.folder), spec.model, spec.disk_bytes)
        self.writes_disk = spec.disk_bytes > 0
        """Whether there is a disk to save to."""
        self._lock = threading.Lock()
        self._indexed = threading.Event()
        self._writes: queue.SimpleQueue[KVChunk | bytes | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[tuple[Tokens, int, OnRead] | None] = queue.SimpleQueue()
        self._backlog = 0
        self._token_bytes = 0.0
        self.disk_bytes = 0
        """Bytes of this model's files."""
        self.disk_tokens = 0
        """Tokens in this model's files."""
        self.hurry = False
        """Whether files are written that a power cut may tear."""
        self._closed = False
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("kv writer", self._write_all), ("kv reader", self._read_all))
        ]
        for thread in self._threads:
            thread.start()

    def may_hold(self, tokens: int) -> bool:
        """Whether memory is large enough for so many tokens beside others, and can be spared."""
        size = tokens * self._token_bytes
        return size < self.memory.limit / 2 and size < self.memory.spare()

    @property
    def accepts_saves(self) -> bool:
        """Whether there is a disk that keeps up."""
        return self.writes_disk and self._backlog <= _MOST_BACKLOG

    @property
    def unsaved(self) -> bool:
        """Whether something in memory is not on disk, or on its way."""
        if not self.writes_disk:
            return False
        with self._lock:
            unsaved = any(map(_waits_for_disk, self.memory))
            return unsaved or self._backlog > 0

    def match(self, tokens: Tokens) -> int:
        """How many of the first tokens are stored."""
        self._indexed.wait(_INDEX_SECONDS)
        with self._lock:
            return sum(length for _, length in self._tree.match(tokens))

    def missing(self, tokens: Tokens, *, to_disk: bool) -> list[tuple[int, int]]:
        """The parts of the tokens, start and end, that have to be put for all to be stored.

        None where they are too few for where they should go.
        """
        if to_disk and len(tokens) < MIN_ON_DISK:
            return []
        stored = self.match(tokens)
        if len(tokens) - stored < MIN_SAVED:
            return []
        start = stored - stored % CHUNK_TOKENS
        return [
            (part, min(part + CHUNK_TOKENS, len(tokens)))
            for part in range(start, len(tokens), CHUNK_TOKENS)
            if len(tokens) - part >= MIN_SAVED or part == start
        ]

    def put(self, tokens: Tokens, start: int, end: int, data: Data, *, to_disk: bool) -> bool:
        """Store a snapshot of one part, the parts before it first; False where it was not taken.

        Tokens that the cache still holds go to disk, tokens that it evicts into memory.
        """
        self._token_bytes = len(data) / (end - start)
        with self._lock:
            parent = self._tree.behind(tokens[:start])
            if parent is None:
                return False
            chunk = self._tree.add(parent, tokens[start:end])
            if chunk.on_disk or chunk.data is not None:
                return True
            chunk.data = data
            if to_disk:
                if not self._queue(chunk):
                    self._forget(chunk)
            else:
                for gone in self.memory.add(chunk):
                    self._give_up(gone)
            for other in self._tree.superseded_by(chunk) if not chunk.removed else ():
                if not other.on_disk:  # else it goes once this one is there, too
                    self._forget(other)
            return not chunk.removed

    def fetch(self, tokens: Tokens, start: int, done: OnRead) -> None:
        """Read what is stored of the tokens from `start`, where a chunk begins, in another thread.

        `done` is called there.
        """
        self._reads.put((tokens, start, done))

    def reject(self, tokens: Tokens, start: int) -> None:
        """Forget the part of the tokens that begins at `start`, since it cannot be restored."""
        with self._lock:
            for chunk, _ in self._tree.match(tokens):
                if chunk.start == start:
                    self._forget(chunk)
                    return

    def flush(self) -> None:
        """Write what is in memory only, as far as the disk keeps up."""
        with self._lock:
            for chunk in list(self.memory):
                if _waits_for_disk(chunk) and not chunk.queued:
                    self._queue(chunk)

    def trim(self) -> None:
        """Free the memory; chunks that are only there are written as far as the disk keeps up."""
        with self._lock:
            for chunk in self.memory.clear():
                if not chunk.removed:
                    self._give_up(chunk)

    def close(self, seconds: float) -> None:
        """Write what waits to be written within so many seconds, and end the threads."""
        self.hurry = True
        self._writes.put(None)
        self._reads.put(None)
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._closed = True

    def _queue(self, chunk: KVChunk) -> bool:
        """Queue a chunk and its predecessors for writing; False if the disk does not take them."""
        path = [part for part in chunk.path() if not part.on_disk]
        if any(part.refused for part in path):
            chunk.refused = True  # never written without its predecessors, so it does not wait
        if chunk.end < MIN_ON_DISK or not self.accepts_saves or chunk.refused:
            return False
        for part in path:
            if not part.queued:
                assert part.data is not None
                part.queued = True
                self._backlog += len(part.data)
                self._writes.put(part)
        return True

    def _give_up(self, chunk: KVChunk) -> None:
        """Evict the data of a chunk from memory; it is written, or else forgotten."""
        if chunk.on_disk:
            chunk.data = None
        elif not chunk.queued and not self._queue(chunk):
            self._forget(chunk)

    def _forget(self, chunk: KVChunk) -> None:
        """Remove a chunk with its descendants, and queue the removal of their files."""
        if chunk.removed:
            return
        for gone in self._tree.remove(chunk):
            self.memory.discard(gone)
            if not gone.queued:
                gone.data = None
            if gone.on_disk:
                self.disk_bytes -= gone.file_size
                self.disk_tokens -= len(gone.tokens)
                self._writes.put(gone.key)

    def _write_all(self) -> None:
        """The writer thread."""
        try:
            if self.writes_disk:
                self._load_index()
        except Exception as error:  # whatever it is, it must not cost a request
            self._stop_writing(error)
        finally:
            self._indexed.set()
        while (job := self._writes.get()) is not None:
            if self._closed:
                return
            if isinstance(job, bytes):
                self._disk.remove(job)
            else:
                self._write(job)

    def _load_index(self) -> None:
        headers = self._disk.open(self._tree.identity)
        with self._lock:
            orphans = self._tree.load(headers)
            self.disk_bytes = sum(chunk.file_size for chunk in self._tree)
            self.disk_tokens = sum(len(chunk.tokens) for chunk in self._tree)
        for orphan in orphans:
            self._disk.remove(orphan.key)

    def _write(self, chunk: KVChunk) -> None:
        data, parent = chunk.data, chunk.parent
        assert data is not None
        assert parent is not None
        written = False
        header = ChunkHeader(self._tree.identity, parent.key, chunk.tokens, len(data))
        try:
            if self.writes_disk and not chunk.removed and self._has_room(header.file_size, parent):
                written = self._disk.write(header, data, durable=not self.hurry)
                self._disk.touch([part.key for part in chunk.path()])
        except Exception as error:  # as above
            self._stop_writing(error)
        with self._lock:
            self._wrote(chunk, header.file_size if written else 0, len(data))

    def _has_room(self, size: int, parent: KVChunk) -> bool:
        """Whether the file fits, and its predecessor is still there after evictions."""
        fits = self._disk.make_room(size)
        with self._lock:
            for key in self._disk.take_evicted():
                self._evicted(key)
        return fits and (parent.parent is None or parent.on_disk)

    def _evicted(self, key: bytes) -> None:
        chunk = self._tree.get(key)
        if chunk is None or not chunk.on_disk:
            return
        chunk.on_disk = False
        chunk.refused = True  # or chunks in memory would evict one another from a full disk forever
        self.disk_bytes -= chunk.file_size
        self.disk_tokens -= len(chunk.tokens)
        if chunk.data is None:
            self._forget(chunk)

    def _wrote(self, chunk: KVChunk, file_size: int, data_size: int) -> None:
        """Record the end of a write; `file_size` is 0 if nothing was written."""
        chunk.queued = False
        self._backlog -= data_size
        if chunk.removed:
            chunk.data = None
            if file_size:
                self._writes.put(chunk.key)
            return
        if file_size:
            chunk.on_disk = True
            chunk.file_size = file_size
            self.disk_bytes += file_size
            self.disk_tokens += len(chunk.tokens)
            for other in self._tree.superseded_by(chunk):
                self._forget(other)
        chunk.refused = not file_size
        if chunk not in self.memory:
            if file_size:
                chunk.data = None
            else:
                self._forget(chunk)

    def _stop_writing(self, error: Exception) -> None:
        if self.writes_disk:
            self.writes_disk = False
            logger.warning("Conversations are not saved to %s: %r", self._disk.folder, error)

    def _read_all(self) -> None:
        """The reader thread."""
        while (job := self._reads.get()) is not None:
            tokens, start, done = job
            parts: list[StoredPart] = []
            try:
                parts = self._read(tokens, start)
            except Exception:  # the sequence would wait for ever
                logger.exception("What is stored of a conversation cannot be read")
            done(parts)

    def _read(self, tokens: Tokens, start: int) -> list[StoredPart]:
        with self._lock:
            found = self._tree.match(tokens)
        parts: list[StoredPart] = []
        for chunk, length in found:
            if chunk.end <= start:
                continue
            if (data := self._load(chunk)) is None:
                break
            end = chunk.start + length
            parts.append(StoredPart(chunk.start, end, len(chunk.tokens), data))
        used = [chunk for chunk, _ in found if parts and chunk.start <= parts[-1].start]
        if used:
            with self._lock:
                self.memory.touch(used[-1])
            self._disk.touch([chunk.key for chunk in used if chunk.on_disk])
        return parts

    def _load(self, chunk: KVChunk) -> Data | None:
        data = chunk.data
        if data is not None or not chunk.on_disk:
            return data
        with suppress(MemoryError):
            data = self._disk.read(chunk.key)
        if data is None:
            with self._lock:
                self._forget(chunk)
        return data


def _waits_for_disk(chunk: KVChunk) -> bool:
    return not (chunk.on_disk or chunk.refused) and chunk.end >= MIN_ON_DISK
