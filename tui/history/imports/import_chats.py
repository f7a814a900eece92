"""Imports the chats of a file into the history, each only once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...chats.chat import Chat
from ...chats.message import Message
from ..database import row_writes
from ..database.history_errors import HistoryError
from .import_file_reader import read_chats
from .imported_chat import ImportedChat, MalformedChat

if TYPE_CHECKING:
    from sqlite3 import Connection

COMMIT_SECONDS = 0.3
"""Longest time of one transaction, which blocks other writes."""
MAX_REPORTED = 5


@dataclass(slots=True)
class ImportReport:
    """The result of an import; `total` is 0 if unknown."""

    total: int = 0
    seen: int = 0
    chats: int = 0
    messages: int = 0
    empty: int = 0
    problems: list[str] = field(default_factory=list[str])
    failed: int = 0

    def sentence(self) -> str:
        """Return the result as a sentence."""
        if self.messages == 0 and not self.failed:
            return "Nothing new: all its chats are here already." if self.seen else "No chats."
        parts = [_count(self.chats, "new chat"), _count(self.messages, "message")]
        text = f"Imported {parts[0]} with {parts[1]}."
        if self.failed:
            first = "; ".join(self.problems)
            text += f" {_count(self.failed, 'chat')} could not be read: {first}."
        return text


def import_chats(
    connection: Connection, path: Path, progress: Callable[[ImportReport], bool]
) -> ImportReport:
    """Add the chats that are missing; `progress` is called now and then, and stops it with False.

    Chats and messages get the same ids at every import, so existing ones are skipped, and a chat
    that grew in the other program gets its new messages. Raises `HistoryError`.
    """
    report = ImportReport()
    try:
        _add_all(connection, path, report, progress)
    finally:
        # Each chat is imported atomically, so finished ones are kept even after a failure.
        if connection.in_transaction:
            connection.execute("COMMIT")
    if report.failed and report.failed == report.seen:
        raise HistoryError(f"{path.name} was not understood: {report.problems[0]}.")
    progress(report)
    return report


def _add_all(
    connection: Connection,
    path: Path,
    report: ImportReport,
    progress: Callable[[ImportReport], bool],
) -> None:
    began = 0.0
    for total, entry in read_chats(path):
        report.total = total
        report.seen += 1
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
        try:
            _add(connection, entry(), report)
        except MalformedChat as error:
            report.failed += 1
            if len(report.problems) < MAX_REPORTED:
                report.problems.append(f"chat {report.seen}: {error}")
        if time.monotonic() - began > COMMIT_SECONDS:
            connection.execute("COMMIT")
            if not progress(report):
                return


def _add(connection: Connection, found: ImportedChat | Chat, report: ImportReport) -> None:
    source = found.source if isinstance(found, ImportedChat) else None
    chat = found.build() if isinstance(found, ImportedChat) else found
    if chat is None or not chat.messages:
        report.empty += 1
        return
    known = {
        name for (name,) in connection.execute("SELECT id FROM messages WHERE chat = ?", (chat.id,))
    }
    is_new = connection.execute("SELECT 1 FROM chats WHERE id = ?", (chat.id,)).fetchone() is None
    missing = [message for message in chat.messages.values() if message.id not in known]
    if not missing:
        return
    connection.execute("SAVEPOINT chat")
    try:
        if is_new:
            body = row_writes.storable_json(chat.settings)
            row_writes.add_chat(connection, chat.id, chat.created, body, source)
        for message in missing:
            row_writes.add_message(connection, chat.id, message, None)
        if is_new:
            for compaction in chat.compactions.values():
                row_writes.add_compaction(connection, chat.id, compaction)
            for name in sorted(chat.undone):
                row_writes.add_undo(connection, name)
            for leaf in leaves(chat):
                row_writes.add_choice(connection, leaf.id)
    except Exception as error:
        connection.execute("ROLLBACK TO chat")
        connection.execute("RELEASE chat")
        if type(error).__name__ == "IntegrityError":
            raise MalformedChat("its messages belong to another chat already") from error
        raise
    connection.execute("RELEASE chat")
    report.chats += is_new
    report.messages += len(missing)


def leaves(chat: Chat) -> Iterator[Message]:
    """Yield the ends of all branches, ordered so that choosing each in turn restores the chat's
    choices.

    At every fork the chosen branch comes last. Yields nothing for a chat without forks.
    """
    if all(len(chat.children(name)) <= 1 for name in (None, *chat.messages)):
        return
    chosen = set(chat.chosen_ids())
    waiting = sorted(chat.children(None), key=lambda message: message.id not in chosen)
    while waiting:
        message = waiting.pop()
        children = chat.children(message.id)
        if not children:
            yield message
        waiting += sorted(children, key=lambda child: child.id not in chosen)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
