"""Detects the word before the cursor that can be completed."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Kind = Literal["command", "file", "chat"]

_COMMAND = re.compile(r"/([\w+-]*)\Z")
_FILE = re.compile(r'(?:^|[\s([{<])@(?:"([^"\n]*)|([^\s"@]*))\Z')
_CHAT = re.compile(r"(?:^|\s)#(\w[^\s#]*|)\Z")


class CompletionTrigger(msgspec.Struct, frozen=True):
    """The word being typed: `query` is the word without its mark, which is at `start`."""

    kind: Kind
    query: str
    start: int


def find_trigger(line: str, *, first: bool) -> CompletionTrigger | None:
    """Return the trigger at the end of `line`, the text before the cursor in its line.

    Commands are recognised only at the beginning of the `first` line.
    """
    if first and (match := _COMMAND.match(line)) is not None:
        return CompletionTrigger("command", match[1], 0)
    if "@" in line and (match := _FILE.search(line)) is not None:
        quoted = match[1] is not None
        query = match[1] if quoted else match[2]
        return CompletionTrigger("file", query, len(line) - len(query) - (2 if quoted else 1))
    if "#" in line and (match := _CHAT.search(line)) is not None:
        return CompletionTrigger("chat", match[1], len(line) - len(match[1]) - 1)
    return None
