"""The disk tier of the KV store: a folder for each model, all with one size limit."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from ...base.own_folder import make_own_folder
from .kv_chunk_file import (
    LONGEST_HEADER,
    SUFFIX,
    BadChunkFile,
    ChunkHeader,
    Data,
    decode_chunk,
    decode_header,
    encode_chunk,
    file_name,
)

_TEMPORARY = ".tmp"
_LOOK_AGAIN_AFTER = 1.0
_MOST_RESERVE = 4 * 2**30
_CACHE_TAG = "CACHEDIR.TAG"
_CACHE_TAG_TEXT = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# What ingle computed for conversations, to go on with them; may be removed at any time.\n"
)


@dataclass(frozen=True)
class _Found:
    """A file of any model, with its last use in nanoseconds."""

    path: Path
    size: int
    used_at: int


class KVDisk:
    """Files that only their owner can read, evicted by least recent use.

    Any number of processes may share the folders: a file appears whole or not at all, and whoever
    misses one computes what was in it.
    """

    def __init__(self, root: Path, model: str, limit: int, *, reserve: int | None = None) -> None:
        """`root` holds a folder a model and at most `limit` bytes in all.

        At least `reserve` bytes of the disk stay free: by default a twentieth of it, at most 4 GiB.
        """
        self._root = root
        self.folder = root / model
        self._limit = limit
        self._reserve = reserve
        self._token = secrets.token_hex(4)
        self._used = 0
        self._looked_at = -_LOOK_AGAIN_AFTER
        self._evicted: list[bytes] = []

    def open(self, identity: bytes) -> list[ChunkHeader]:
        """The headers of all chunks of this identity; removes all other files of the folder.

        Raises OSError if the folder cannot be made private.
        """
        for folder in (self._root, self.folder):
            make_own_folder(folder)
        self._tag()
        headers: list[ChunkHeader] = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                header = _read_header(Path(entry.path))
                if header is not None and header.identity == identity:
                    headers.append(header)
                elif not _is_being_written(entry.name):
                    _remove(Path(entry.path))
        return headers

    def read(self, key: bytes) -> memoryview | None:
        """The data of a chunk; None if it is missing or damaged, and then it is removed."""
        path = self.folder / file_name(key)
        try:
            with path.open("rb", buffering=0) as file:
                content = bytearray(os.fstat(file.fileno()).st_size)
                if file.readinto(content) != len(content):
                    raise BadChunkFile(f"{path.name} ends early")
            return decode_chunk(content, path.name)[1]
        except OSError:
            return None
        except BadChunkFile:
            _remove(path)
            return None

    def write(self, header: ChunkHeader, data: Data, *, durable: bool = True) -> bool:
        """Store a chunk; False where the folder was removed; raises any other OSError.

        Without `durable` a power cut may tear the file, which its digest will show.
        """
        path = self.folder / header.file_name
        temporary = path.with_name(f".{path.name}.{self._token}.{os.getpid()}{_TEMPORARY}")
        try:
            _write_new(temporary, encode_chunk(header, data), durable=durable)
            temporary.replace(path)
        except FileNotFoundError:
            return False
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._used += header.file_size
        return True

    def touch(self, keys: Sequence[bytes]) -> None:
        """Note the use of chunks that follow one another, first one first.

        Later ones count as used a little earlier, since they are useless without those before.
        """
        now = time.time_ns()
        for depth, key in enumerate(keys):
            with suppress(OSError):
                used_at = now - depth * 1000
                _set_time(self.folder / file_name(key), used_at)

    def remove(self, key: bytes) -> None:
        """Remove a chunk, if it is there."""
        _remove(self.folder / file_name(key))

    def make_room(self, size: int) -> bool:
        """Evict the least recently used files until `size` bytes fit; False if they cannot.

        The other folders are looked at again once that was a second ago, or all seems full.
        """
        if size > self._limit:
            return False
        fresh = time.monotonic() - self._looked_at < _LOOK_AGAIN_AFTER
        if fresh and self._used + size <= self._limit:
            return True
        found = sorted(_files(self._root), key=lambda file: file.used_at)
        used = sum(file.size for file in found)
        free = self._free() - size
        for file in found:
            if used + size <= self._limit and free >= 0:
                break
            _remove(file.path)
            self._note_eviction(file.path)
            used -= file.size
            free += file.size
        self._used = used
        self._looked_at = time.monotonic()
        return used + size <= self._limit and free >= 0

    def take_evicted(self) -> list[bytes]:
        """The chunks of this model that were evicted since the last call."""
        evicted, self._evicted = self._evicted, []
        return evicted

    def _note_eviction(self, path: Path) -> None:
        if path.parent == self.folder and path.suffix == SUFFIX:
            with suppress(ValueError):  # no name of ours
                self._evicted.append(bytes.fromhex(path.stem))

    def _free(self) -> int:
        """Free bytes of the disk, less the reserve."""
        usage = shutil.disk_usage(self._root)
        reserve = self._reserve
        if reserve is None:
            reserve = min(usage.total // 20, _MOST_RESERVE)
        return usage.free - reserve

    def _tag(self) -> None:
        """Mark the folder as a cache, which backup programs leave out."""
        tag = self._root / _CACHE_TAG
        if not tag.exists():
            tag.write_text(_CACHE_TAG_TEXT)


def _write_new(path: Path, parts: Sequence[Data], *, durable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(path, flags, 0o600)
    try:
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(fd, rest) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def _set_time(path: Path, nanoseconds: int) -> None:
    """Set the times of a file; by a descriptor where possible, as a worker may not by a path."""
    if os.utime not in os.supports_fd:
        os.utime(path, ns=(nanoseconds, nanoseconds))
        return
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        os.utime(fd, ns=(nanoseconds, nanoseconds))
    finally:
        os.close(fd)


def _read_header(path: Path) -> ChunkHeader | None:
    try:
        with path.open("rb", buffering=0) as file:
            head = file.read(LONGEST_HEADER)
            return decode_header(head, path.name, os.fstat(file.fileno()).st_size)
    except (OSError, BadChunkFile):
        return None


def _is_being_written(name: str) -> bool:
    """Whether it is the temporary file of another process that still runs."""
    if not name.endswith(_TEMPORARY):
        return False
    pid = name.removesuffix(_TEMPORARY).rpartition(".")[2]
    return pid.isdecimal() and int(pid) != os.getpid() and psutil.pid_exists(int(pid))


def _remove(path: Path) -> None:
    """Remove a file or an empty folder, if that is possible."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        with suppress(OSError):
            path.rmdir()


def _files(root: Path) -> Iterator[_Found]:
    """The files of all models."""
    for folder in root.iterdir():
        if folder.is_symlink() or not folder.is_dir():
            continue
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if entry.name.endswith((SUFFIX, _TEMPORARY)):
                        yield _Found(Path(entry.path), found.st_size, found.st_mtime_ns)
