"""Stores the passphrase in the system's keyring, if requested and `keyring` is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from .history_errors import HistoryError

SERVICE = "ingle chats"


def load_passphrase(folder: Path) -> str | None:
    """Return the passphrase of the chats in `folder`, None if the keyring has none."""
    try:
        found = _call("get_password", folder)
    except HistoryError:
        return None
    return found if isinstance(found, str) else None


def store_passphrase(folder: Path, passphrase: str) -> None:
    """Store the passphrase in the keyring; raises `HistoryError`."""
    _call("set_password", folder, passphrase)


def delete_passphrase(folder: Path) -> None:
    """Delete the passphrase from the keyring; raises `HistoryError`."""
    _call("delete_password", folder)


def _call(name: str, folder: Path, *more: str) -> object:
    try:
        keyring: Any = importlib.import_module("keyring")
    except ImportError as error:
        raise HistoryError(
            "The system's keyring cannot be used: `keyring` is not installed.",
            "Install it with `pip install keyring`, then start the chat again.",
        ) from error
    try:
        return getattr(keyring, name)(SERVICE, str(folder), *more)
    except Exception as error:
        # Keyring backends raise their own exceptions, without a common base.
        raise HistoryError(f"The system's keyring refused: {error or type(error)}.") from error
