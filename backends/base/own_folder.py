"""Folders that only their owner can read."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def make_own_folder(folder: Path) -> None:
    """Make a folder of mode 0700, or make sure that there is one of ours; raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if sys.platform == "win32":
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is a link, or belongs to another user")
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
