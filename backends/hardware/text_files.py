"""Small files of the operating system that may be missing, such as those of sysfs."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str:
    """Return the text without white space around it; empty if the file cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):
        return ""


def read_number(path: Path) -> int | None:
    """Return a whole number, None for anything else."""
    text = read_text(path)
    return int(text) if text.isdecimal() else None
