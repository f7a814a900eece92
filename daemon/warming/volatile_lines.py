"""Lines of instructions that change with the session: dates, working folders, git's state."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from ingle.backends.base.conversation import ChatMessage

_LONGEST = 400
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    rf"\b(?:\d{{4}}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{{4}}"
    rf"|{_MONTH}\s+\d\d?,?\s+\d{{4}}|\d\d?\s+{_MONTH}\s+\d{{4}})\b",
    re.IGNORECASE,
)
_NOW = re.compile(r"\b(?:today|date|time|now|datetime|currently)\b", re.IGNORECASE)
_FOLDER = re.compile(
    r"\b(?:(?:working|current|workspace) director(?:y|ies)|cwd|pwd|(?:working|workspace) "
    r"(?:folder|root|path)|project root|root folder)\b.{0,40}?[:=\s`'\"](?:/|~|[A-Z]:\\)",
    re.IGNORECASE,
)
_GIT = re.compile(r"\s*gitstatus:", re.IGNORECASE)
"""Claude Code's last part of the instructions: the state of the repository, to the end."""

DATE, FOLDER, GIT = "a date", "the working folder", "the state of the repository"


def volatile_kind(line: str) -> str | None:
    """Return what of a line changes from session to session; None if nothing known does."""
    if _GIT.match(line):
        return GIT
    if len(line) > _LONGEST:
        return None
    if _DATE.search(line) and _NOW.search(line):
        return DATE
    return FOLDER if _FOLDER.search(line) else None


def moved_behind(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Move such lines of the leading system messages to the first user message.

    There they follow the instructions and the tools, which so stay the same in all sessions.
    """
    moved: list[str] = []
    said = list(messages)
    for number, message in enumerate(said):
        if message.role == "user" and moved:
            lines = "\n".join(moved)
            content = f"<environment>\n{lines}\n</environment>\n\n{message.content}"
            said[number] = replace(message, content=content)
            return said
        if message.role != "system":
            break
        kept, gone = _split(message.content)
        moved += gone
        said[number] = replace(message, content=kept)
    return list(messages)


def _split(text: str) -> tuple[str, list[str]]:
    """Return a text without its volatile lines, and these."""
    lines = text.split("\n")
    kinds = [volatile_kind(line) for line in lines]
    end = kinds.index(GIT) if GIT in kinds else len(lines)
    kept = [line for line, kind in zip(lines[:end], kinds[:end], strict=True) if kind is None]
    gone = [line.strip() for line, kind in zip(lines[:end], kinds[:end], strict=True) if kind]
    return "\n".join(kept), gone + lines[end:]


def first_change(before: str, after: str) -> tuple[int, str | None] | None:
    """Return at which character two instructions differ first, and what changed there, if known.

    None if one begins with the other.
    """
    at = 0
    for one, other in zip(before.split("\n"), after.split("\n"), strict=False):
        if one != other:
            return at, volatile_kind(other) or volatile_kind(one)
        at += len(one) + 1
    return None
