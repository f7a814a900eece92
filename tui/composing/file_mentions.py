"""Mentions of files in a prompt, such as `@src/app.py`, `@"two words.txt"`, `@src/**/*.py`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec

_MENTION = re.compile(r"""(?<![^\s([{<])@(?:"([^"\n]+)"|([^\s"@][^\s"]*))""")
_TRAILING = ".,;:!?)]}>'"
_GLOB = re.compile(r"[*?]|\[[^\]]+\]")


class Mention(msgspec.Struct, frozen=True):
    """`@path` in a text, from `start` to `end`, exclusive."""

    path: str
    start: int
    end: int

    @property
    def is_glob(self) -> bool:
        """Return whether it is a pattern for several files."""
        return _GLOB.search(self.path) is not None


class AttachmentPreview(msgspec.Struct, frozen=True):
    """The content that a mention or a chip would attach; `problem` says why it cannot.

    `size` is in bytes.
    """

    name: str
    size: int = 0
    files: int = 1
    problem: str = ""
    is_picture: bool = False


def find_mentions(text: str) -> list[Mention]:
    """Return all mentions in a text; a full stop after one is not part of it."""
    if "@" not in text:
        return []
    mentions: list[Mention] = []
    for match in _MENTION.finditer(text):
        if match[1] is not None:
            mentions.append(Mention(match[1], match.start(), match.end()))
            continue
        path = match[2].rstrip(_TRAILING) or match[2]
        mentions.append(Mention(path, match.start(), match.start() + 1 + len(path)))
    return mentions


def as_mention(path: str) -> str:
    """Return a path as a mention, quoted if needed."""
    plain = find_mentions(f"@{path}")
    whole = len(plain) == 1 and plain[0].path == path and not plain[0].is_glob
    return f"@{path}" if whole else f'@"{path}"'


def mentions_of(argument: str, folder: Path) -> tuple[list[str], list[str]]:
    """The mentions of the files and patterns that a command names, and names that are no files.

    Names are separated as in a shell, unless all of it is one name. Reads the disk.
    """
    try:
        words = shlex.split(argument)
    except ValueError:
        words = [argument]
    if len(words) > 1 and exists(resolve(argument, folder)):
        words = [argument]
    mentions: list[str] = []
    missing: list[str] = []
    for word in words:
        path = resolve(word, folder)
        if exists(path):
            mentions.append(as_mention(shown_path(path, folder)))
        elif any(mark in word for mark in "*?["):
            mentions.append(f'@"{word}"' if " " in word else f"@{word}")
        else:
            missing.append(word)
    return mentions, missing


def resolve(path: str, folder: Path) -> Path:
    """Return the file that a mention refers to, relative to the folder; it need not exist."""
    return Path.home() / path[2:] if path.startswith("~/") else folder / path


def exists(path: Path) -> bool:
    """Return whether there is such a file; a name that no file can have is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def shown_path(path: Path, folder: Path) -> str:
    """Return the shortest name that `resolve` turns back into the path."""
    for base, prefix in ((folder, ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return prefix + path.relative_to(base).as_posix()
    return path.as_posix()
