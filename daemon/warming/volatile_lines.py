"""Lines of instructions that change with the session: dates, working folders, git's state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from ingle.backends.base.conversation import ChatMessage

_LONGEST = 400
_LONGEST_ABOUT_MEMORY = 1_000
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    rf"\b(?:\d{{4}}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{{4}}"
    rf"|{_MONTH}\s+\d\d?,?\s+\d{{4}}|\d\d?\s+{_MONTH}\s+\d{{4}})\b",
    re.IGNORECASE,
)
_NOW = re.compile(r"\b(?:today|date|time|now|datetime|currently)\b", re.IGNORECASE)
_FOLDER = re.compile(
    r"\b(?:(?:working|current|workspace|session) director(?:y|ies)|cwd|pwd"
    r"|(?:working|workspace|session) (?:folder|root|path)|project root|root folder"
    r"|working in the (?:directory|folder))\b.{0,40}?[:=\s`'\"](?:/|~|[A-Z]:\\)",
    re.IGNORECASE,
)
_TAG = re.compile(r"\s*<(cwd|working_directory|current_date|date)>(?:(.+)</\1>)?\s*", re.IGNORECASE)
"""An element, on one line, or with its text on the next one."""
_MEMORY = re.compile(
    r"\bmemor(?:y|ies)\b.{0,80}?[\s`'\"](?:/|~/|[A-Z]:\\)|(?:^|[\s`'\"])(?:/|~/|[A-Z]:\\)\S*[/\\]memory\b",
    re.IGNORECASE,
)
"""Where an agent keeps notes: the folder is named after the one it works in."""
_SENTENCE_END = re.compile(r"(?<=[^\d\s][.!?])\s+(?=[A-Z])")
_GIT = re.compile(r"\s*gitstatus:", re.IGNORECASE)
"""Claude Code's last part of the instructions: the state of the repository, to the end."""

DATE, FOLDER, GIT = "a date", "the working folder", "the state of the repository"


def volatile_kind(line: str) -> str | None:
    """Return what of a line changes from session to session; None if nothing known does."""
    if _GIT.match(line):
        return GIT
    if len(line) <= _LONGEST_ABOUT_MEMORY and _MEMORY.search(line):
        return FOLDER
    if len(line) > _LONGEST:
        return None
    if (tag := _TAG.fullmatch(line)) is not None and tag[2]:
        return _kind_of(tag)
    if _DATE.search(line) and _NOW.search(line):
        return DATE
    return FOLDER if _FOLDER.search(line) else None


def _kind_of(tag: re.Match[str]) -> str:
    return DATE if "date" in tag[1].casefold() else FOLDER


def volatile_kinds(lines: Sequence[str]) -> list[str | None]:
    """Return `volatile_kind` of each line, also where an element is on three lines."""
    kinds = [volatile_kind(line) for line in lines]
    for at, line in enumerate(lines[:-2]):
        tag = _TAG.fullmatch(line)
        if tag is not None and not tag[2] and lines[at + 2].strip() == f"</{tag[1]}>":
            kinds[at : at + 3] = [_kind_of(tag)] * 3
    return kinds


def moved_behind(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Move such lines of the leading system messages to the first user message.

    There they follow the instructions and the tools, which so stay the same in all sessions. System
    messages right behind that user message are instructions, too, and move before it.
    """
    said = list(messages)
    first = next((at for at, message in enumerate(said) if message.role != "system"), 0)
    if not first or said[first].role != "user":
        return said
    behind = list(takewhile(lambda message: message.role == "system", said[first + 1 :]))
    kept: list[ChatMessage] = []
    moved: list[str] = []
    for message in said[:first] + behind:
        text, gone = _split(message.content)
        kept.append(replace(message, content=text))
        moved += gone
    if behind:  # many templates know one system message only
        joined = "\n\n".join(message.content for message in kept[first - 1 :])
        kept[first - 1 :] = [replace(kept[first - 1], content=joined)]
    user = said[first]
    if moved:
        lines = "\n".join(moved)
        text = f"<environment>\n{lines}\n</environment>\n\n{user.content}"
        user = replace(user, content=text)
    return [*kept, user, *said[first + 1 + len(behind) :]]


def _split(text: str) -> tuple[str, list[str]]:
    """Return a text without its volatile lines, and these."""
    lines = text.split("\n")
    kinds = volatile_kinds(lines)
    end = kinds.index(GIT) if GIT in kinds else len(lines)
    kept: list[str] = []
    gone: list[str] = []
    for line, kind in zip(lines[:end], kinds[:end], strict=True):
        stays, moves = (line, "") if kind is None else _parted(line)
        kept += [stays] if stays or kind is None else []
        gone += [moves.strip()] if moves else []
    return "\n".join(kept), gone + lines[end:]


def _parted(line: str) -> tuple[str, str]:
    """Return the sentences of a volatile line that stay, and those that change."""
    sentences = _SENTENCE_END.split(line)
    changing = [each for each in sentences if volatile_kind(each)]
    if not changing:
        return "", line
    return " ".join(each for each in sentences if each not in changing), " ".join(changing)


def first_change(before: str, after: str) -> tuple[int, str | None] | None:
    """Return at which character two instructions differ first, and what changed there, if known.

    None if one begins with the other.
    """
    at = 0
    ones, others = before.split("\n"), after.split("\n")
    for number, (one, other) in enumerate(zip(ones, others, strict=False)):
        if one != other:
            return at, volatile_kinds(others)[number] or volatile_kinds(ones)[number]
        at += len(one) + 1
    return None
