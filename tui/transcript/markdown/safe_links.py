"""Decides which addresses may become terminal hyperlinks, and be opened."""

from __future__ import annotations

import re

MAX_LENGTH = 2048
# Other characters could be confused with the escape sequence around the address.
_SAFE = re.compile(r"(?:https?://|mailto:)[\x21-\x7e]+", re.IGNORECASE)


def safe_link(address: str) -> str | None:
    """Return a web or mail address of visible ASCII characters, None for any other."""
    if len(address) > MAX_LENGTH or not _SAFE.fullmatch(address):
        return None
    return address
