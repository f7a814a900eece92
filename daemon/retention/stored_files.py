"""Items stored as files: grouping, time of last use, and removal."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from ingle.models.durable_folder import sync_folder

_NAME = re.compile(r"(?:resp_|conv_|chatcmpl-|file-|(?:msg)?batch_)[0-9a-f]+")


class StoredItem(msgspec.Struct, frozen=True):
    """One item: `name` is its id in the API, `used` Unix seconds, `size` bytes."""

    name: str
    paths: tuple[Path, ...]
    used: float
    size: int


def things_in(paths: Iterable[Path]) -> Iterator[StoredItem]:
    """Return the items that files hold, grouped by id; files that vanish meanwhile are left out."""
    groups: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for path in paths:
        found = _NAME.match(path.name)
        groups[path.parent, found[0] if found else path.name].append(path)
    for (_, name), members in groups.items():
        used, size, there = 0.0, 0, list[Path]()
        for path in members:
            with suppress(OSError):
                found_now = path.lstat()
                used, size = max(used, found_now.st_mtime), size + found_now.st_size
                there.append(path)
        if there:
            yield StoredItem(name, tuple(there), used, size)


def erase_files(things: Iterable[StoredItem], *, emptied: frozenset[Path] = frozenset()) -> None:
    """Remove the files for good, but truncate those that are open for writing; raises
    `OSError`.
    """
    folders: set[Path] = set()
    for thing in things:
        for path in thing.paths:
            if path in emptied:
                with path.open("r+b") as file:
                    file.truncate(0)
            else:
                path.unlink(missing_ok=True)
                folders.add(path.parent)
    for folder in folders:
        with suppress(FileNotFoundError):
            sync_folder(folder)
