"""Creates files that only their owner may read."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def make_private(path: Path) -> None:
    """Create an empty file with mode 0600, unless it exists.

    SQLite would apply the umask; its companion files inherit this mode. An existing file must not
    be opened: closing it would release the locks of all this program's connections to it, and the
    next program that leaves would delete the log under them.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
