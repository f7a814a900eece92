"""Notes which renamed files a power cut could undo or empty."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


class SyncedRenames:
    """What this process renamed without a sync: of the file before, of its new folder after."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.empty: list[str] = []
        """Files that took another's place without being on the disk."""
        self.undone: dict[tuple[int, int], str] = {}
        """Names that are not on the disk yet, by their folders."""
        self._synced: set[tuple[int, int]] = set()
        self._fsync = os.fsync
        patch.setattr(os, "fsync", self._sync)
        for name in ("replace", "rename", "link"):
            patch.setattr(os, name, self._noting(getattr(os, name), replaces=name == "replace"))

    def _sync(self, fd: int) -> None:
        self._fsync(fd)
        found = os.fstat(fd)
        self._synced.add((found.st_dev, found.st_ino))
        self.undone.pop((found.st_dev, found.st_ino), None)

    def _noting(self, call: Any, *, replaces: bool) -> Any:
        def rename(source: Any, target: Any, **more: Any) -> None:
            found = os.lstat(source)
            call(source, target, **more)
            known = (found.st_dev, found.st_ino) in self._synced
            if replaces and not known and Path(target).is_file():
                self.empty.append(str(target))
            folder = Path(target).parent.stat()
            self.undone[folder.st_dev, folder.st_ino] = str(target)

        return rename
