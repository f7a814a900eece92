"""The passphrase in the system's keyring, where its owner wants that and `keyring` is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from .history_errors import HistoryError

SERVICE = "ingle chats"


def remembered(folder: Path) -> str | None:
    """The passphrase of the chats in `folder`, None where the keyring has or gives none."""
    try:
        found = _call("get_password", folder)
    except HistoryError:
        return None
    return found if isinstance(found, str) else None


def remember(folder: Path, passphrase: str) -> None:
    """Put the passphrase into the keyring; raises `HistoryError`."""
    _call("set_password", folder, passphrase)


def forget(folder: Path) -> None:
    """Take the passphrase out of the keyring; raises `HistoryError`."""
    _call("delete_password", folder)


def _load() -> Any:
    try:
        return importlib.import_module("keyring")
    except ImportError as error:
        raise HistoryError(
            "The system's keyring cannot be asked: `keyring` is not installed.",
            "Install it with `pip install keyring`, then start the chat again.",
        ) from error


def _call(name: str, folder: Path, *more: str) -> object:
    module = _load()
    try:
        return getattr(module, name)(SERVICE, str(folder), *more)
    except Exception as error:
        # Every system's keyring has failures of its own, without a common root.
        raise HistoryError(f"The system's keyring refused: {error or type(error)}.") from error
