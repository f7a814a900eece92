"""Prompt templates: Markdown files with placeholders."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

MAX_TEMPLATES = 500
MAX_BYTES = 200_000
PLACE = re.compile(r"\{\{ *([^{}\n]{1,60}?) *\}\}")
_NAME = re.compile(r"[\w][\w+.-]*\Z")


class Template(msgspec.Struct, frozen=True):
    """A saved prompt; `description` is its first line."""

    name: str
    text: str

    @property
    def description(self) -> str:
        """Return the first non-empty line, without heading marks."""
        lines = (line.lstrip("# ").strip() for line in self.text.splitlines())
        return next((line for line in lines if line), "")

    @property
    def places(self) -> list[str]:
        """Return the names of the placeholders, without duplicates."""
        return list(dict.fromkeys(match[1] for match in PLACE.finditer(self.text)))


def load_templates(folder: Path) -> list[Template]:
    """Return the templates `*.md` in a folder, by name; unreadable files are skipped. Blocks."""
    templates: list[Template] = []
    try:
        files = sorted(folder.glob("*.md"))[:MAX_TEMPLATES]
    except OSError:
        return []
    for file in files:
        if _NAME.match(file.stem) is None:
            continue
        try:
            if not file.is_file() or file.stat().st_size > MAX_BYTES:
                continue
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            continue
        templates.append(Template(file.stem, text.strip("\n")))
    return templates


def next_place(text: str, start: int) -> tuple[int, int] | None:
    """Return the span of the next placeholder after `start`, wrapping around."""
    match = PLACE.search(text, start) or PLACE.search(text)
    return None if match is None else match.span()
