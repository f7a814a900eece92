"""Files that hold either what they held before or all of what they are to hold."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from ingle.models.failpoints import failpoint


def write_atomically(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put `content` in the place of the file, which need not exist; links are followed.

    A new file gets `mode`, an old one keeps its own. Raises `OSError`, and then nothing changed.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(target.stat().st_mode)
    # Beside the file, because a rename never leaves its file system.
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
    with suppress(OSError):  # a folder that cannot be opened loses the name in a power cut at worst
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
