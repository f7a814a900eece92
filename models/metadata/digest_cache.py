"""Cached SHA-256 digests of files outside the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ..json_cache import read_json_cache, write_json_cache
from ..sources.partial_file import hash_file
from .stored_model import StoredModel

_MOST = 4096


class _Known(msgspec.Struct, frozen=True):
    size: int
    changed: int
    sha256: str


class DigestCache:
    """Digests by path, size and modification time, in a file that several processes may share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, path: Path) -> str | None:
        """The digest, if it is known for the file as it is now."""
        return _valid(path, self._read().get(str(path)))

    def complete(self, models: Sequence[StoredModel]) -> list[StoredModel]:
        """The models, with digests filled in where the cache has them."""
        if all(model.sha256 is not None for model in models):
            return list(models)
        entries = self._read()
        return [
            msgspec.structs.replace(
                model, sha256=model.sha256 or _valid(model.path, entries.get(str(model.path)))
            )
            for model in models
        ]

    def digest(self, path: Path, on_progress: Callable[[int], None]) -> str:
        """The digest, computed by reading the file if it is not known; raises `OSError`."""
        if known := self.find(path):
            return known
        status = path.stat()
        found = hash_file(path, on_progress)
        self._keep(path, _Known(status.st_size, status.st_mtime_ns, found))
        return found

    def _keep(self, path: Path, known: _Known) -> None:
        entries = self._read()
        entries[str(path)] = known
        while len(entries) > _MOST:
            del entries[next(iter(entries))]
        write_json_cache(self._path, entries)

    def _read(self) -> dict[str, _Known]:
        return read_json_cache(self._path, dict[str, _Known]) or {}


def _valid(path: Path, known: _Known | None) -> str | None:
    """The cached digest if the file has not changed."""
    if known is not None:
        with suppress(OSError):
            status = path.stat()
            if (known.size, known.changed) == (status.st_size, status.st_mtime_ns):
                return known.sha256
    return None
