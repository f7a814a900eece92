"""Searches files for a regular expression, run as `python -P -m`: it can only read the folder."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ingle.backends.base.child_process import die_with_parent
from ingle.backends.confinement.access_policy import AccessPolicy
from ingle.backends.confinement.confine import confine

MOST_MATCHES = 200
_MOST_BYTES = 2 * 2**20
_MOST_OF_LINE = 300
_NOT_FOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class SearchTask(msgspec.Struct, frozen=True):
    """A pattern, and names of files relative to a folder."""

    folder: str
    pattern: str
    names: list[str]


class FoundLines(msgspec.Struct, frozen=True):
    """Lines such as `file:3: text`, at most `MOST_MATCHES`; `error` is for the model."""

    lines: list[str]
    error: str = ""


def search(task: SearchTask) -> FoundLines:
    """Return the lines that match; binary files, links and files above 2 MiB are left out."""
    try:
        pattern = re.compile(task.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return FoundLines([], f"The pattern is no regular expression: {error}.")
    lines: list[str] = []
    for name in task.names:
        for number, line in enumerate(_lines(Path(task.folder, name)), 1):
            if pattern.search(line):
                lines.append(f"{name}:{number}: {line.strip()[:_MOST_OF_LINE]}")
                if len(lines) == MOST_MATCHES:
                    return FoundLines(lines)
    return FoundLines(lines)


def _lines(path: Path) -> Iterator[str]:
    try:
        fd = os.open(path, os.O_RDONLY | _NOT_FOLLOWED)
    except OSError:
        return  # a link, a folder of another repository, or gone
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return
        content = file.read(_MOST_BYTES)
    if b"\0" not in content[:8192]:
        yield from text_lines(content)


def text_lines(content: bytes) -> list[str]:
    """Return the lines of a text, which only line feeds end, as editors count them."""
    lines = content.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def main() -> None:
    """Answer the one task on stdin."""
    die_with_parent(os.getppid())
    task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=SearchTask)
    confine(AccessPolicy(reads=(Path(task.folder),)))
    sys.stdout.buffer.write(msgspec.msgpack.encode(search(task)))


if __name__ == "__main__":
    main()
