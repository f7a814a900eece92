"""Lists the files of a folder for completion."""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

from ..terminal.run_program import run_program
from .file_mentions import resolve

MAX_FILES = 50_000
WALK_SECONDS = 2.0
GIT_SECONDS = 5.0
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist"})


def index_files(folder: Path) -> tuple[str, ...]:
    """Return the files that git does not ignore, else those of a walk; blocks for seconds.

    Paths are relative to the folder, with `/`; folders come first and end in it.
    """
    files = _from_git(folder)
    if files is None:
        files = _from_walk(folder)
    files = files[:MAX_FILES]
    folders = {f"{parent}/" for name in files for parent in _parents(name)}
    return (*sorted(folders), *files)


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _from_git(folder: Path) -> list[str] | None:
    # A repository's own settings may name programs to run; listing must not run them.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), "ls-files"]
    command += ["--cached", "--others", "--exclude-standard", "-z"]
    listed = run_program(command, GIT_SECONDS, GIT_OPTIONAL_LOCKS="0")
    if listed is None:
        return None
    names = dict.fromkeys(listed.decode("utf-8", "surrogateescape").split("\0"))
    return sorted(name for name in names if name and name.isprintable())


def _from_walk(folder: Path) -> list[str]:
    """Return the files below a folder, the nearest first, within the time limit."""
    deadline = time.monotonic() + WALK_SECONDS
    files: list[str] = []
    waiting = deque([(str(folder), "")])
    while waiting:
        if len(files) > MAX_FILES or time.monotonic() > deadline:
            return files
        path, prefix = waiting.popleft()
        try:
            with os.scandir(path) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            if entry.name.startswith(".") or not entry.name.isprintable():
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    waiting.append((entry.path, f"{prefix}{entry.name}/"))
            else:
                files.append(prefix + entry.name)
    return files


def list_folder(typed: str, folder: Path, limit: int = 2_000) -> list[str]:
    """Return the completions of `~/part`, `/part` or `../part`, as they would be typed."""
    head, slash, part = typed.rpartition("/")
    base = resolve(head + slash, folder)
    names: list[str] = []
    try:
        with os.scandir(base) as entries:
            for entry in entries:
                if entry.name.startswith(".") and not part.startswith("."):
                    continue
                if entry.name.isprintable():
                    names.append(f"{head}{slash}{entry.name}{'/' if entry.is_dir() else ''}")
                if len(names) >= limit:
                    break
    except OSError:
        return []
    return sorted(names)
