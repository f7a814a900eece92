"""`make_private`: an empty file that only its owner may read."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def make_private(path: Path) -> None:
    """Make an empty file for its owner only, where there is none.

    SQLite would let the umask decide who may read it; companions get the same mode from SQLite. A
    file that is there must not be opened: closing it again would end the locks of every connection
    this program has to it, and the next program that leaves would delete the log under them.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
