"""Passphrases of encrypted chats: asked for where somebody can be asked, and changed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..history.database.history_errors import HistoryError, WrongPassphrase

if TYPE_CHECKING:
    from ..history.history_store import HistoryStore
    from .plain_session import PlainSession

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
    """What is typed unseen, "" where it is nothing."""
    from getpass import getpass

    try:
        return getpass(question)
    except (EOFError, KeyboardInterrupt):
        return ""


def change_encryption(store: HistoryStore, argument: str, session: PlainSession) -> None:
    """`/encrypt`: lock the chats with a passphrase, unlock them, or keep them in the clear.

    Raises `HistoryError`.
    """
    output = session.output
    if store.database.is_locked:
        output.line("The chats are open." if _asked(store) else "The chats stay locked.")
    elif not store.database.is_encrypted:
        _encrypt(store, session)
    elif argument == "off":
        output.line("Whoever can read your files can read the chats then.")
        if session.reader.confirm("Keep them in the clear?"):
            store.decrypt()
            output.line("The chats are kept in the clear again.")
        else:
            output.line("The chats stay encrypted.")
    elif argument in ("remember", "forget"):
        store.remember(argument == "remember")
        done = "opens the chats from now on" if argument == "remember" else "has forgotten it"
        output.line(f"The system's keyring {done}.")
    else:
        output.line("The chats are encrypted. /encrypt off keeps them in the clear from then on.")
        output.line("/encrypt remember puts the passphrase into the system's keyring.")


def _encrypt(store: HistoryStore, session: PlainSession) -> None:
    from ..history.database.database_encryption import (
        NO_WAY_BACK,
        load_sqlcipher,
        passphrase_problem,
    )

    output = session.output
    load_sqlcipher()
    output.line(NO_WAY_BACK)
    first = _passphrase("New passphrase (empty: not now): ")
    if not first:
        output.line("Nothing was changed.")
        return
    problem = passphrase_problem(first)
    if problem is None and _passphrase("The same once more: ") != first:
        problem = "The two are not the same."
    if problem is not None:
        output.error(problem, "Nothing was changed.")
        return
    store.encrypt(first)
    output.line("The chats are encrypted. The next start asks for the passphrase.")
    left = store.database.left_in_the_clear()
    if left:
        output.line(f"Set aside earlier, and still in the clear: {', '.join(left)}.")
