"""Classifies a paste: text to insert, long text, or dropped files."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..text.terminal_safe_text import clean
from .file_mentions import exists

LONG_LINES = 10
LONG_CHARACTERS = 1_000
MAX_DROPPED = 20
_BRACKETS = re.compile(r"\x1b?\[20[01]~")


def clean_paste(text: str) -> str:
    """Return the pasted text without the terminal's paste marks and control characters."""
    return clean(_BRACKETS.sub("", text) if "[20" in text else text)


def is_long(text: str) -> bool:
    """Return whether a paste is too long to insert into the prompt directly."""
    return len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES


def dropped_paths(text: str) -> list[Path]:
    """Return the files dropped onto the terminal, which types their paths; else nothing.

    The whole text must consist of absolute paths that exist. Reads the disk.
    """
    text = text.strip()
    if not text or len(text) > 4096 * MAX_DROPPED or not _may_be_paths(text):
        return []
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    if not 0 < len(words) <= MAX_DROPPED:
        return []
    paths = [_path(word) for word in words]
    found = [path for path in paths if path is not None and exists(path)]
    return found if len(found) == len(words) else []


def _may_be_paths(text: str) -> bool:
    first = text[1:] if text[0] in "'\"" else text
    drive = sys.platform == "win32" and first[1:2] == ":"
    return first.startswith(("/", "~/", "file://")) or drive


def _path(word: str) -> Path | None:
    if word.startswith("file://"):
        parts = urlsplit(word)
        if parts.netloc not in ("", "localhost"):
            return None
        word = unquote(parts.path)
    path = Path.home() / word[2:] if word.startswith("~/") else Path(word)
    return path if path.is_absolute() and "\0" not in word else None
