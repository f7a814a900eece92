"""The known prefixes on disk, beside the stored KV: a file each, readable by the owner only."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import msgspec

from ingle.backends.base.own_folder import make_own_folder

from ..stores.atomic_file import write_atomically
from .known_prefix import KnownPrefix

KEPT = 8
"""Prefixes of one model; the least recently used ones are removed."""
LARGEST = 4 * 2**20

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(KnownPrefix)


class PrefixFiles:
    """Known prefixes by the digest of the weights that they were sent to; all methods block.

    The folder is part of the stored KV: what erases that erases it, too.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist."""
        self._folder = folder

    def keep(self, digest: str, prefix: KnownPrefix) -> KnownPrefix | None:
        """Keep a prefix, or note its use; returns what it replaces, if that differs.

        Raises `OSError`.
        """
        path = self._folder / f"{digest}.{prefix.kind}.json"
        content, before = _encoder.encode(prefix), _read(path)
        if len(content) > LARGEST:
            return None
        if before == prefix:
            os.utime(path)
            return None
        for folder in (self._folder.parent, self._folder):
            make_own_folder(folder)
        write_atomically(path, content)
        for old in self._paths(digest)[KEPT:]:
            old.unlink(missing_ok=True)
        return before

    def of(self, digest: str) -> list[KnownPrefix]:
        """Return the prefixes of a model, the most recently used first."""
        found = [_read(path) for path in self._paths(digest)]
        return [prefix for prefix in found if prefix is not None]

    def adopt(self, digest: str, program: str) -> list[KnownPrefix]:
        """Keep for a model what this program sent to others, if it sent nothing to this one.

        Returns the program's prefixes; raises `OSError`.
        """
        own = [prefix for prefix in self.of(digest) if is_of(prefix, program)]
        if own:
            return own
        others: dict[str, KnownPrefix] = {}
        for path in self._paths("*"):
            prefix = _read(path)
            if prefix is not None and is_of(prefix, program):
                others.setdefault(prefix.kind, prefix)
        for prefix in others.values():
            self.keep(digest, prefix)
        return list(others.values())

    def _paths(self, digest: str) -> list[Path]:
        """Return the files of a model, the most recently used first."""
        times: list[tuple[float, Path]] = []
        for path in self._folder.glob(f"{digest}.*.json"):
            with suppress(OSError):  # it was erased just now
                times.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(times, reverse=True)]


def is_of(prefix: KnownPrefix, program: str) -> bool:
    """Whether a prefix is that of a program of `ingle connect`, by its name."""
    return _plain(prefix.agent).startswith(_plain(program))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _read(path: Path) -> KnownPrefix | None:
    """Return what a file holds; None if it is missing or of another version."""
    try:
        return _decoder.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
