"""`unlock`: opens encrypted chats before the first line, where somebody can be asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..history.errors import HistoryError, WrongPassphrase

if TYPE_CHECKING:
    from ..history.store import HistoryStore

ATTEMPTS = 3


def unlock(store: HistoryStore) -> None:
    """Ask the keyring, then the terminal; chats that stay locked are told about on stderr.

    What is said while they are locked is lost at the end.
    """
    if not store.database.is_locked or store.unlock_with_keyring():
        return
    if sys.stdin.isatty() and _asked(store):
        return
    print("The chats are locked: what is said now is not kept.", file=sys.stderr)


def _asked(store: HistoryStore) -> bool:
    from getpass import getpass

    for _ in range(ATTEMPTS):
        try:
            passphrase = getpass("Passphrase of your chats (empty: not now): ")
        except (EOFError, KeyboardInterrupt):
            return False
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
