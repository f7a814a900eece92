"""Stored responses, chats and conversations: cached in memory, persisted on disk."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from ingle.models.durable_folder import sync_folder
from ingle.models.failpoints import failpoint
from ingle.models.struct_preparation import prepared

from ..errors import RequestError, StorageUnusable
from ..settings.paths import FolderUnusable, UnsafeFolder, make_private_folder
from .atomic_file import write_atomically
from .durable_file import storage_error

log = logging.getLogger("ingle.daemon")

MAX_COUNT = 10_000
MAX_BYTES = 512 * 2**20
MEMORY_BYTES = 64 * 2**20
PROBE_BYTES = 64 * 1024
MAX_FAILURES = 1000
KEEP_SECONDS = 30 * 86400.0

_ID = re.compile("(?:resp|conv)_[0-9a-f]{48}|chatcmpl-[0-9a-f]{24}")
_RESPONSE = "resp_"

T = TypeVar("T", bound=msgspec.Struct)


class StoredResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One response as it was sent, and the input items of its request."""

    version: int = 1
    response: msgspec.Raw
    input: list[msgspec.Raw]


class ResponseStore:
    """Stored objects by id; one thread does the disk work, in the order of the calls.

    If there are too many, the least recently used are deleted. A negative `keep_seconds` keeps
    them for ever.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_count: int = MAX_COUNT,
        max_bytes: int = MAX_BYTES,
        memory_bytes: int = MEMORY_BYTES,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        self._folder = folder
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._memory_bytes = memory_bytes
        self._keep_seconds = keep_seconds
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._memory_used = 0
        self._changing = asyncio.Lock()
        # Created on first use: most daemons never store a response.
        self._thread: ThreadPoolExecutor | None = None
        self._sizes: OrderedDict[str, int] | None = None
        self._failed = False
        """Whether the last write failed."""
        self._failures: dict[str, RequestError] = {}

    def put(self, response_id: str, stored: StoredResponse) -> None:
        """Store a response or its new state; it is on disk when `flush` returns."""
        content = msgspec.json.encode(stored)
        self._remember(response_id, content)
        self._disk.submit(self._write_noted, response_id, content)

    async def save(self, object_id: str, stored: msgspec.Struct) -> None:
        """Store an object; it is on disk when this returns.

        Raises `StorageFull` or `StorageUnusable`; an earlier state is then kept.
        """
        content = msgspec.json.encode(stored)
        loop = asyncio.get_running_loop()
        failure = await loop.run_in_executor(self._disk, self._write, object_id, content)
        if failure is not None:
            raise failure
        self._remember(object_id, content)

    async def change(self, object_id: str, kind: type[T], change: Callable[[T], T]) -> T | None:
        """Store and return what `change` makes of an object; None if there is none.

        One object is changed at a time. Raises what `save` and `change` raise.
        """
        async with self._changing:
            stored = await self.get_as(object_id, kind)
            if stored is not None:
                stored = change(stored)
                await self.save(object_id, stored)
            return stored

    async def discard(self, object_id: str) -> None:
        """Delete an object that may be being changed; it is gone from the disk on return.

        Raises what `flush` raises.
        """
        async with self._changing:
            self.delete(object_id)
            await self.flush(object_id)

    async def get(self, response_id: str) -> StoredResponse | None:
        """Return the response; None if there is none, or if it could not be written."""
        if not response_id.startswith(_RESPONSE):
            return None
        return await self.get_as(response_id, StoredResponse)

    async def get_as(self, response_id: str, kind: type[T]) -> T | None:
        """Return the object, decoded as `kind`; see `get`."""
        if self._failed:
            await self.flush()  # what was put may not be written either
        if self._failures.pop(response_id, None) is not None:
            self._forget(response_id)
        content = self._memory.get(response_id)
        if content is not None:
            self._memory.move_to_end(response_id)
            self._disk.submit(self._touch, response_id)
        elif _ID.fullmatch(response_id):
            loop = asyncio.get_running_loop()
            content = await loop.run_in_executor(self._disk, self._read, response_id)
            if content is not None:
                self._remember(response_id, content)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=prepared(kind))
        except msgspec.MsgspecError:
            log.warning("The stored object %s is damaged", response_id)
            return None

    async def list_as(self, prefix: str, kind: type[T]) -> list[T]:
        """Return all objects whose ids begin with `prefix`, decoded as `kind`, in any order."""
        await self.flush()
        return await asyncio.to_thread(self._list, prefix, kind)

    def delete(self, response_id: str) -> None:
        """Delete a response; it is gone for good when `flush` returns."""
        self._forget(response_id)
        if _ID.fullmatch(response_id):
            self._disk.submit(self._erase, response_id)

    async def flush(self, response_id: str | None = None) -> None:
        """Wait until everything that was put or deleted before is on disk.

        Raises `StorageFull` or `StorageUnusable` if this response could not be written, which is
        then not stored, or could not be deleted.
        """
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, lambda: None)
        if response_id is not None and (failure := self._failures.pop(response_id, None)):
            self._forget(response_id)
            raise failure

    async def check_room(self) -> None:
        """After a failed write, raise what `flush` would raise now."""
        if self._failed:
            await asyncio.get_running_loop().run_in_executor(self._disk, self._probe)

    async def reset(self) -> None:
        """Reload the index from disk, after files were removed by other code."""
        self._memory.clear()
        self._memory_used = 0
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._lose_index)

    @property
    def _disk(self) -> ThreadPoolExecutor:
        """The disk thread; Python waits for its work, also at process exit."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "responses")
        return self._thread

    def _remember(self, response_id: str, content: bytes) -> None:
        self._forget(response_id)
        self._memory[response_id] = content
        self._memory_used += len(content)
        while self._memory_used > self._memory_bytes and len(self._memory) > 1:
            _, oldest = self._memory.popitem(last=False)
            self._memory_used -= len(oldest)

    def _forget(self, response_id: str) -> None:
        content = self._memory.pop(response_id, None)
        self._memory_used -= len(content or b"")

    # The functions below run on the disk thread.

    def _path(self, response_id: str) -> Path:
        return self._folder / f"{response_id}.json"

    def _write_noted(self, response_id: str, content: bytes) -> None:
        """Write, and note a failure for `flush`."""
        if (failure := self._write(response_id, content)) is not None:
            self._note_failure(response_id, failure)

    def _write(self, response_id: str, content: bytes) -> RequestError | None:
        try:
            sizes = self._index()
            failpoint("responses.write")
            write_atomically(self._path(response_id), content)
        except (OSError, UnsafeFolder, FolderUnusable) as error:
            if not self._failed:
                self._failed = True
                log.warning("Responses cannot be stored in %s: %s", self._folder, error)
            return self._failure(error, response_id)
        self._failed = False
        sizes[response_id] = len(content)
        sizes.move_to_end(response_id)
        used = sum(sizes.values())
        while len(sizes) > self._max_count or (used > self._max_bytes and len(sizes) > 1):
            oldest = next(iter(sizes))
            used -= sizes[oldest]
            self._remove(oldest)
        return None

    def _note_failure(self, response_id: str, failure: RequestError) -> None:
        self._failures[response_id] = failure
        if len(self._failures) > MAX_FAILURES:  # of writes that no request waits for
            del self._failures[next(iter(self._failures))]

    def _failure(
        self, error: OSError | UnsafeFolder | FolderUnusable, object_id: str
    ) -> RequestError:
        if isinstance(error, OSError):
            found = storage_error(error, self._folder)
        else:
            found = StorageUnusable(f"Responses cannot be stored: {error}")
        if object_id.startswith(_RESPONSE):
            found.hint = f"{found.hint or ''} Or send 'store': false.".strip()
        return found

    def _probe(self) -> None:
        """Write a file of the size of a small response; raises `_failure`'s errors."""
        path = self._folder / ".probe"
        try:
            write_atomically(path, bytes(PROBE_BYTES))
            path.unlink()
        except OSError as error:
            raise self._failure(error, _RESPONSE) from error
        self._failed = False

    def _read(self, response_id: str) -> bytes | None:
        path = self._path(response_id)
        try:
            if self._is_old(path.stat().st_mtime):
                self._remove(response_id)
                return None
            content = path.read_bytes()
        except OSError:
            return None
        self._touch(response_id)
        return content

    def _list(self, prefix: str, kind: type[T]) -> list[T]:
        decoder = msgspec.json.Decoder(prepared(kind))
        found: list[T] = []
        for path in self._folder.glob(f"{prefix}*.json"):
            with suppress(OSError, msgspec.MsgspecError):  # deleted meanwhile, or damaged
                if not self._is_old(path.stat().st_mtime):
                    found.append(decoder.decode(path.read_bytes()))
        return found

    def _lose_index(self) -> None:
        self._sizes = None

    def _is_old(self, used: float) -> bool:
        return 0 <= self._keep_seconds < time.time() - used

    def _touch(self, response_id: str) -> None:
        """Record the use in the file's time, so that it survives a restart."""
        with suppress(OSError):  # it may be gone, or never have been written
            os.utime(self._path(response_id))
        if self._sizes is not None and response_id in self._sizes:
            self._sizes.move_to_end(response_id)

    def _erase(self, response_id: str) -> None:
        try:
            self._path(response_id).unlink(missing_ok=True)
            sync_folder(self._folder)
        except OSError as error:
            self._note_failure(response_id, storage_error(error, self._folder))
        else:
            self._remove(response_id)

    def _remove(self, response_id: str) -> None:
        with suppress(OSError):
            self._path(response_id).unlink()
        if self._sizes is not None:
            self._sizes.pop(response_id, None)

    def _index(self) -> OrderedDict[str, int]:
        """Return the size of each file, least recently used first; deletes expired ones."""
        if self._sizes is not None:
            return self._sizes
        make_private_folder(self._folder)
        found: list[tuple[float, str, int]] = []
        for path in self._folder.iterdir():
            with suppress(OSError):
                seen = path.stat()
                if self._is_old(seen.st_mtime) or not _ID.fullmatch(path.stem):
                    path.unlink()
                else:
                    found.append((seen.st_mtime, path.stem, seen.st_size))
        self._sizes = OrderedDict((stem, size) for _, stem, size in sorted(found))
        return self._sizes
