"""Ids of chats and messages."""

from __future__ import annotations

import secrets
import time


def new_id() -> str:
    """Return a unique id of 22 hexadecimal digits; later ids sort after earlier ones."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(5)}"
