"""Walk folders of other programs, within bounds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MOST = 20_000
"""The most entries of one folder's tree, which may be a home folder."""


def files_below(folder: Path, depth: int) -> Iterator[Path]:
    """Files in a folder and up to `depth` levels below it, sorted by name.

    Leaves out hidden entries and linked folders, which could form cycles. Raises `OSError` if the
    folder itself cannot be read.
    """
    yield from _files_below(folder, depth, [_MOST])


def _files_below(folder: Path, depth: int, left: list[int]) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        left[0] -= 1
        if left[0] < 0:
            return
        if entry.name.startswith("."):
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)
        elif depth > 0:
            with suppress(OSError):  # not readable
                yield from _files_below(Path(entry.path), depth - 1, left)
