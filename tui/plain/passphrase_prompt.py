"""Asks for the passphrase of encrypted chats before a program reads them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..history.database.history_errors import HistoryError, WrongPassphrase

if TYPE_CHECKING:
    from ..history.history_store import HistoryStore

ATTEMPTS = 3


def unlock(store: HistoryStore) -> None:
    """Ask the keyring, then the terminal; stderr says if the chats stay locked.

    Messages that are sent while they are locked are not kept.
    """
    if not store.database.is_locked or store.unlock_with_keyring():
        return
    if sys.stdin.isatty() and _asked(store):
        return
    print("The chats are locked: messages of this session are not kept.", file=sys.stderr)


def _asked(store: HistoryStore) -> bool:
    for _ in range(ATTEMPTS):
        passphrase = _passphrase("Passphrase of your chats (empty: not now): ")
        if not passphrase:
            return False
        try:
            store.unlock(passphrase)
        except WrongPassphrase as error:
            print(error.message, file=sys.stderr)
        except HistoryError as error:
            print(f"{error.message} {error.hint or ''}".strip(), file=sys.stderr)
            return False
        else:
            return True
    return False


def _passphrase(question: str) -> str:
    """Read a line without echo; "" if the user cancels."""
    from getpass import getpass

    try:
        return getpass(question)
    except (EOFError, KeyboardInterrupt):
        return ""
