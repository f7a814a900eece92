"""Encryption of the chats at rest, by SQLCipher."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import HistoryError


def load_sqlcipher() -> Any:
    """SQLCipher's module in the shape of `sqlite3`; raises `HistoryError` where it is missing."""
    try:
        return importlib.import_module("sqlcipher3.dbapi2")
    except ImportError as error:
        raise HistoryError(
            "Encrypted chats need SQLCipher, which is not installed.",
            "Install it with `pip install 'ingle[encryption]'`, then start the chat again.",
        ) from error


def quoted(text: str) -> str:
    """`text` as a string in SQL, for the statements that take no parameters."""
    return "'" + text.replace("\0", "").replace("'", "''") + "'"
