"""Erases terminal chats from their database.

Imports the chat's history module lazily: the daemon needs it only if chats have a retention period.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .erasure import CHATS, ErasureResult, ErasureSelection
from .stored_files import erase_files, things_in

if TYPE_CHECKING:
    from ingle.tui.history.database.row_reads import ChatSummary
    from ingle.tui.history.history_store import HistoryStore

COPIES = "copies of the chats' database"


class ChatEraser:
    """Finds and erases chats; `unlock` is called for encrypted ones.

    Methods block, and raise `HistoryError` if the database cannot be read or written.
    """

    def __init__(self, folder: Path, unlock: Callable[[HistoryStore], None]) -> None:
        from ingle.tui.history.history_store import open_history

        self._folder = folder
        self._troubles: list[str] = []
        self._store = open_history(folder, self._troubles.append)
        try:
            unlock(self._store)
        except BaseException:
            self._store.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def find(self, selection: ErasureSelection) -> list[ChatSummary]:
        """Return the chats that the selection covers; ids may be abbreviated to their first
        digits.
        """
        chats = self._store.recent(1_000_000)
        if selection.ids:
            return [chat for chat in chats if chat.id.startswith(tuple(selection.ids))]
        return [chat for chat in chats if selection.covers(chat.id, chat.changed)]

    def erase(self, chats: list[ChatSummary], selection: ErasureSelection) -> list[ErasureResult]:
        """Erase these chats, and copies of the database that may hold them.

        A copy that was set aside as damaged is deleted if everything is erased, or if its time is
        selected.
        """
        from ingle.tui.history.database.history_errors import HistoryError

        for chat in chats:
            self._store.delete_chat(chat.id)
        if not self._store.flush() or self._troubles:
            cause = self._troubles[-1].split("\n")[0] if self._troubles else ""
            raise HistoryError(
                f"The chats were not erased. {cause}".rstrip(),
                "If the disk is full, free some space (`ingle forget --all --place kv` erases "
                "stored KV caches); if they cannot be written, get the right to; if another "
                "program holds them, end it. Then try again.",
            )
        copies = [path for path in self.copies(selection) if chats or not selection.ids]
        things = list(things_in(copies))
        erase_files(things)
        erased = [ErasureResult(place=CHATS, what="chats", count=len(chats))] if chats else []
        if things:
            size = sum(thing.size for thing in things)
            erased.append(ErasureResult(place=CHATS, what=COPIES, count=len(things), bytes=size))
        return erased

    def copies(self, selection: ErasureSelection) -> list[Path]:
        """Return backups of the database, always; damaged ones if the selection covers their
        time.
        """
        backups = list(self._folder.glob("history*.backup*"))
        damaged = [
            path
            for path in self._folder.glob("history*.damaged-*")
            if not selection.ids and selection.covers(path.name, path.stat().st_mtime)
        ]
        return backups + damaged

    def damaged(self) -> list[str]:
        """Return the names of databases set aside as damaged, which may hold chats."""
        return sorted(path.name for path in self._folder.glob("history*.damaged-*.db"))
