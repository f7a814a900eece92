"""Atomic replacement of files."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from ingle.models.failpoints import failpoint


def write_atomically(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace the content of the file, which need not exist; links are followed.

    A new file gets `mode`, an existing one keeps its own. If it raises `OSError`, the file is
    unchanged.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
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
    with suppress(OSError):  # without the sync a power cut may at worst lose the new name
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
