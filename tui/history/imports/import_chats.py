"""Imports the chats of a file into the history, each only once."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ...chats.chat import Chat
from ...chats.message import Message
from ...text import number_format
from ..database import row_writes
from ..database.database import is_conflict
from ..database.history_errors import HistoryError
from ..database.transactions import savepoint
from ..ingle_json import FORMAT, read_ingle_chat
from .imported_chat import ImportedChat, Json, MalformedChat, objects_in
from .json_exports import read_chatgpt, read_claude, read_open_webui
from .terminal_chats import read_terminal_chats

if TYPE_CHECKING:
    from sqlite3 import Connection


MAX_BYTES = 1 << 30
"""Bytes of unpacked JSON: more than any export has, and less than fills the memory."""
MAX_MEMBERS = 10_000
KNOWN = (
    "Known are ChatGPT's and Claude's conversations.json and their zip, Open WebUI's export, "
    "oterm's store.db, elia's elia.sqlite and ingle's own JSON."
)

Reader = Callable[[Json], ImportedChat | Chat]
Entry = Callable[[], ImportedChat | Chat]


def read_chats(path: Path) -> Iterator[tuple[int, Entry]]:
    """Yield the number of chats (0 if unknown) and a reader for each.

    Raises `HistoryError` if the file is of no known kind; reading one chat raises `MalformedChat`.
    """
    try:
        with path.open("rb") as file:
            head = file.read(16)
        if head.startswith(b"SQLite format 3"):
            for chat in read_terminal_chats(path):
                yield 0, lambda found=chat: found
        elif head.startswith(b"PK\x03\x04"):
            for name, content in _members(path):
                yield from _entries(content, f"{name} in {path.name}")
        elif path.stat().st_size > MAX_BYTES:
            raise _too_large(path.name)
        else:
            yield from _entries(path.read_bytes(), path.name)
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {error.strerror or error}.") from error
    except MalformedChat as error:
        raise HistoryError(f"{path.name} was not understood: {error}.", KNOWN) from error
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise HistoryError(f"{path.name} cannot be unpacked: {error}.") from error


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the conversation files in an archive, unpacked in memory only."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if len(names) > MAX_MEMBERS:
            raise HistoryError(f"{path.name} has more than {MAX_MEMBERS} files in it.")
        wanted = [
            name
            for name in names
            if name.rpartition("/")[2].startswith("conversations") and name.endswith(".json")
        ]
        if not wanted:
            raise HistoryError(f"{path.name} has no conversations.json in it.", KNOWN)
        left = MAX_BYTES
        for name in wanted:
            with archive.open(name) as member:
                # The sizes stated in the archive may be false.
                content = member.read(left + 1)
            left -= len(content)
            if left < 0:
                raise _too_large(path.name)
            yield name, content


def _too_large(name: str) -> HistoryError:
    return HistoryError(f"{name} holds more than 1 GiB of text, which no export does.")


def _entries(content: bytes, name: str) -> Iterator[tuple[int, Entry]]:
    try:
        parsed = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"{name} is not JSON: {error}.", KNOWN) from error
    entries = _listed(parsed)
    if not entries:
        raise HistoryError(f"{name} has no chats in it.", KNOWN)
    readers = [_reader(entry) for entry in entries]
    if not any(readers):
        raise HistoryError(f"{name} is not an export of a known program.", KNOWN)
    for entry, reader in zip(entries, readers, strict=True):
        yield len(entries), partial(reader or _unknown, entry)


def _listed(parsed: Any) -> list[Json]:
    """Return the chats in a list, in an object's list of conversations, or alone."""
    if not isinstance(parsed, dict):
        return objects_in({"conversations": parsed}, "conversations")
    inner = cast("Json", parsed)
    listed = isinstance(inner.get("conversations"), list)
    return objects_in(inner, "conversations") if listed else [inner]


def _reader(entry: Json) -> Reader | None:
    if entry.get("format") == FORMAT:
        return read_ingle_chat
    if "mapping" in entry:
        return read_chatgpt
    if "chat_messages" in entry:
        return read_claude
    if isinstance(entry.get("chat"), dict):
        return read_open_webui
    return None


def _unknown(entry: Json) -> Chat:
    raise MalformedChat("an entry is not a chat")


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
    problems: list[str] = field(default_factory=list[str])
    failed: int = 0

    def sentence(self) -> str:
        """Return the result as a sentence."""
        if self.messages == 0 and not self.failed:
            return "Nothing new: all its chats are here already." if self.seen else "No chats."
        parts = [
            number_format.counted(self.chats, "new chat"),
            number_format.counted(self.messages, "message"),
        ]
        text = f"Imported {parts[0]} with {parts[1]}."
        if self.failed:
            first = "; ".join(self.problems)
            text += f" {number_format.counted(self.failed, 'chat')} could not be read: {first}."
        return text


def import_chats(
    connection: Connection, path: Path, progress: Callable[[ImportReport], bool]
) -> ImportReport:
    """Add the missing chats; `progress` is called periodically, and stops the import with False.

    Chats and messages get the same ids at every import, so existing ones are skipped, and a chat
    that grew in the other program gets its new messages. Raises `HistoryError`.
    """
    report = ImportReport()
    began = 0.0
    try:
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
                    break
    finally:
        # Each chat is imported atomically, so finished ones are kept even after a failure.
        if connection.in_transaction:
            connection.execute("COMMIT")
    if report.failed and report.failed == report.seen:
        raise HistoryError(f"{path.name} was not understood: {report.problems[0]}.")
    progress(report)
    return report


def _add(connection: Connection, found: ImportedChat | Chat, report: ImportReport) -> None:
    source = found.source if isinstance(found, ImportedChat) else None
    chat = found.build() if isinstance(found, ImportedChat) else found
    if chat is None or not chat.messages:
        return
    known = {
        name for (name,) in connection.execute("SELECT id FROM messages WHERE chat = ?", (chat.id,))
    }
    is_new = connection.execute("SELECT 1 FROM chats WHERE id = ?", (chat.id,)).fetchone() is None
    missing = [message for message in chat.messages.values() if message.id not in known]
    if not missing:
        return
    try:
        with savepoint(connection):
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
        if is_conflict(error):
            raise MalformedChat("its messages belong to another chat already") from error
        raise
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
