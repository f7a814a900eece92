"""Names for chats and messages."""

from __future__ import annotations

import secrets
import time


def new_id() -> str:
    """A name of 22 hexadecimal digits that nobody else gives out; later ones sort behind."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(5)}"
