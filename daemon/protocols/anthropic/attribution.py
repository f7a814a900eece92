"""The line by which Claude Code attributes its requests, which is not for the model."""

from __future__ import annotations

import re

# A name and several `key=value;` behind it: the version, the entry point, and in some a checksum
# of this very request. As part of a prompt it would make every prompt differ from its first words.
_HEADER = re.compile(r"x-anthropic-billing-header:(?:[ \t]*[A-Za-z0-9_]+=[^;\n]*;)+[ \t]*\n*")


def without_attribution(text: str) -> str:
    """The text behind such a line, where it begins with one."""
    header = _HEADER.match(text)
    return text if header is None else text[header.end() :]
