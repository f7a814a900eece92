"""Atomic replacement of files."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ingle.models.durable_folder import make_durable_folder, sync_folder
from ingle.models.failpoints import failpoint

ABANDONED = 60.0
"""Seconds after which a file that should have been renamed belongs to a killed process."""
_UNFINISHED = re.compile(r"\..+\.(?:json|toml)\.[a-z0-9_]{8}")


def write_atomically(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace the content of the file, which need not exist; links are followed.

    A new file gets `mode`, an existing one keeps its own. If it raises `OSError`, the file is
    unchanged, or a power cut may undo the change.
    """
    target = Path(os.path.realpath(path))
    make_durable_folder(target.parent)
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(target.stat().st_mode)
    # In the same folder, because a rename cannot cross file systems.
    fd, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            failpoint("atomic.write")
            file.write(content)
            file.flush()
            failpoint("atomic.sync")
            os.fsync(file.fileno())
        temporary.chmod(mode)
        failpoint("atomic.rename")
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def remove_unfinished(folders: Iterable[Path]) -> None:
    """Remove what killed processes left of `write_atomically` in these folders."""
    horizon = time.time() - ABANDONED
    for folder in folders:
        for path in folder.iterdir() if folder.is_dir() else ():
            if _UNFINISHED.fullmatch(path.name):
                with suppress(OSError):  # it was renamed or removed just now
                    if path.lstat().st_mtime < horizon:
                        path.unlink()
