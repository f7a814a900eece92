"""`safe_link`: which addresses may become hyperlinks of the terminal, and be opened."""

from __future__ import annotations

import re

MAX_LENGTH = 2048
# What is not a visible ASCII character would have to be told apart from the sequence around it.
_SAFE = re.compile(r"(?:https?://|mailto:)[\x21-\x7e]+", re.IGNORECASE)


def safe_link(address: str) -> str | None:
    """The address if it leads to the web or a mailbox and holds nothing but visible ASCII."""
    if len(address) > MAX_LENGTH or not _SAFE.fullmatch(address):
        return None
    return address
