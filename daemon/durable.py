"""Small files that are whole after a crash: the old content, or the new one."""

from __future__ import annotations

import errno
import os
import secrets
from io import BufferedWriter
from pathlib import Path

from .errors import StorageFull

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_durably(path: Path, content: bytes) -> None:
    """Replace the file in one step, readable for its owner only; raises `StorageFull`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with private_file(temporary) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise storage_error(error, path.parent) from error


def private_file(path: Path) -> BufferedWriter:
    """A new file for writing bytes that only its owner may read."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def storage_error(error: OSError, folder: Path) -> Exception:
    """`StorageFull` where there was no room, else the error itself."""
    if error.errno not in _NO_ROOM:
        return error
    return StorageFull(
        f"There is no room left in {folder}.", hint="Free some space on that disk, and try again."
    )
