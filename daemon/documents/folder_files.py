"""Which files of a folder tools show: what git would, without links."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

MOST_FILES = 50_000
_SECONDS = 20.0
_SKIPPED = {"node_modules", "__pycache__", "target", "venv"}


async def list_files(root: Path) -> list[str]:
    """Return names of files relative to the folder, in order, at most `MOST_FILES`.

    Without those that .gitignore names if git knows the folder, else without hidden ones.
    """
    names = await asyncio.to_thread(_known_to_git, root)
    if names is None:
        names = await asyncio.to_thread(lambda: sorted(_walked(root)))
    return names[:MOST_FILES]


def _known_to_git(root: Path) -> list[str] | None:
    """Return what git lists, None if it cannot; settings of the folder must not start a program."""
    try:
        done = subprocess.run(
            [
                *("git", "-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit"),
                *("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"),
            ],
            cwd=root,
            env={"PATH": os.environ.get("PATH", ""), "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    names = (name.decode("utf-8", "replace") for name in done.stdout.split(b"\0") if name)
    return sorted(name for name in names if os.path.lexists(root / name))


def _walked(root: Path) -> Iterator[str]:
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name[0] != "." and name not in _SKIPPED]
        for name in files:
            if name[0] != ".":
                yield os.path.relpath(Path(folder, name), root)
                count += 1
        if count > MOST_FILES:
            return
