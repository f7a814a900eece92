"""The chat history of this user: records chats as they happen, reads and searches them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from ..chats.history_protocol import ChatRecorder
from . import open_answers
from .database import chat_reads, row_reads, row_writes
from .database.backup import opens_copy, wipe_backups
from .database.damaged_values import DamageReport
from .database.database import Database, database_errors, is_damage, storage_trouble
from .database.history_errors import HistoryError, SearchSuperseded, WrongPassphrase
from .database.read_connection import ReadConnection
from .history_writer import HistoryWriter

if TYPE_CHECKING:
    from sqlite3 import Connection

    from ..chats.chat import Chat, ChatSettings
    from ..chats.message import CompactionRecord, Ending, Message, MessageFacts
    from .chat_search import SearchHit
    from .database.row_reads import ChatSummary, ModelSpeed
    from .imports.import_chats import ImportReport
    from .open_answers import UnfinishedAnswer

PATIENCE = 2.0
"""Seconds a reader waits for pending writes."""

REPAIR_PATIENCE = 60.0
"""Seconds a reader waits for the repair of a damaged database."""

P = ParamSpec("P")
R = TypeVar("R")


def open_history(folder: Path, on_trouble: Callable[[str], None]) -> HistoryStore:
    """Return the store of chats under `folder`; the database is opened on first use.

    `on_trouble` is called from another thread, once, when chats cannot be kept and why.
    """
    return HistoryStore(Database(folder), on_trouble)


class HistoryStore(ChatRecorder):
    """Records without waiting; reading blocks, so call it in a thread.

    A writer thread commits records within half a second. Reads see all earlier records. Reading
    methods raise `HistoryError`.
    """

    def __init__(self, database: Database, on_trouble: Callable[[str], None]) -> None:
        self.database = database
        self._writer = HistoryWriter(database, on_trouble)
        self._reader = ReadConnection(database)
        self._searcher = ReadConnection(database)
        self._searches = itertools.count(1)
        self._newest_search = 0
        self._importing = threading.Lock()
        self._known: dict[str, str] = {}
        self._damage = DamageReport(on_trouble)

    @property
    def is_able(self) -> bool:
        """Return whether records reach the disk, as far as known."""
        return self._writer.is_able

    def add_chat(self, chat: Chat) -> None:
        """See `ChatRecorder`."""
        body = self._known[chat.id] = row_writes.storable_json(chat.settings)
        self._writer.put(row_writes.add_chat, chat.id, chat.created, body)

    def add_message(self, chat: str, message: Message) -> None:
        """See `ChatRecorder`."""
        kept = copy(message)  # later changes are separate records
        self._writer.put(
            lambda connection: row_writes.add_message(connection, chat, kept, self._writer.session)
        )

    def append(self, message: str, text: str = "", reasoning: str = "") -> None:
        """See `ChatRecorder`."""
        self._writer.grow(message, text, reasoning)

    def set_generation(self, message: str, generation: str) -> None:
        """See `ChatRecorder`."""
        self._writer.put(
            lambda connection: row_writes.add_generation(
                connection, message, generation, self._writer.session
            )
        )

    def end_message(self, message: str, ending: Ending, facts: MessageFacts) -> None:
        """See `ChatRecorder`."""
        body = row_writes.storable_json(facts)
        self._writer.put_after_text(message, row_writes.add_ending, message, ending, body)

    def choose(self, chat: str, message: str) -> None:
        """See `ChatRecorder`."""
        self._writer.put(row_writes.add_choice, message)

    def pin(self, message: str, pinned: bool) -> None:
        """See `ChatRecorder`."""
        self._writer.put(row_writes.add_message_pin, message, pinned)

    def set_settings(self, chat: str, settings: ChatSettings) -> None:
        """See `ChatRecorder`."""
        body, known = row_writes.storable_json(settings), self._known.get(chat)
        self._known[chat] = body
        self._writer.put(row_writes.add_settings, chat, body, known)

    def add_compaction(self, chat: str, compaction: CompactionRecord) -> None:
        """See `ChatRecorder`."""
        self._writer.put(row_writes.add_compaction, chat, compaction)

    def undo_compaction(self, chat: str, compaction: str) -> None:
        """See `ChatRecorder`."""
        self._writer.put(row_writes.add_undo, compaction)

    def save_draft(self, chat: str, text: str) -> None:
        """See `ChatRecorder`."""
        draft, changed = row_writes.storable(text), time.time()
        self._writer.put(row_writes.save_draft, chat, draft, changed)

    def remove_message(self, chat: str, message: str) -> None:
        """See `ChatRecorder`."""
        self._writer.put_after_text(message, row_writes.remove_message, message)

    def delete_chat(self, chat: str) -> None:
        """Delete a chat permanently: its rows, its words in the index, and their traces in
        the log.
        """
        self._writer.put(row_writes.delete_chat, chat)

    def load(self, chat: str) -> Chat | None:
        """Return the chat as it was left, None if missing."""
        loaded = self._read(chat_reads.load_chat, chat)
        if loaded is not None:
            self._known[chat] = row_writes.storable_json(loaded.settings)
        return loaded

    def load_at(self, chat: str, message: str | None) -> Chat | None:
        """Return the chat with `message` on its path, to continue it there; None if deleted."""
        loaded = self.load(chat)
        found = loaded.messages.get(message) if loaded is not None and message is not None else None
        if loaded is not None and found is not None and found not in loaded.path:
            loaded.choose(found)
            self.choose(chat, found.id)
        return loaded

    def draft(self, chat: str) -> str:
        """Return the draft of a chat."""
        return self._read(row_reads.load_draft, chat)

    def settings(self, chat: str) -> ChatSettings:
        """Return the settings of a chat."""
        settings = self._read(chat_reads.load_settings, chat)
        self._known[chat] = row_writes.storable_json(settings)
        return settings

    def message_text(self, message: str) -> str:
        """Return a message's text with its attachments; "" if missing."""
        found = self.answer(message)
        return "" if found is None else found.text

    def given(self, message: str) -> tuple[int, int]:
        """Return the characters of text and reasoning with which a message was added."""
        return self._read(row_reads.initial_lengths, message)

    def recent(self, limit: int = 200, folder: str | None = None) -> list[ChatSummary]:
        """Return the chats, pinned first, then the newest first; including those with only
        a draft.
        """
        return self._read(row_reads.recent_chats, limit, folder)

    def folders(self) -> list[tuple[str, int]]:
        """Return the folders in use, by name, with their number of chats."""
        return self._read(row_reads.folders)

    def prompts(self, limit: int = 200) -> list[str]:
        """Return the latest prompts of all chats, newest first, without duplicates."""
        return self._read(row_reads.recent_prompts, limit)

    def unfinished(self) -> list[UnfinishedAnswer]:
        """Return answers whose writing program has died; this program now owns them.

        Resume each by its `generation`, noted with `set_generation`, or end it as interrupted with
        `end_message`.
        """
        return self._ask_writer(
            lambda connection: open_answers.claim_unfinished(connection, self._writer.session)
        )

    def claim(self, message: str) -> bool:
        """Return whether this program owns an open answer, claiming it if its owner died.

        False if another running program owns it, or if it has ended.
        """
        return self._ask_writer(
            lambda connection: open_answers.claim_answer(connection, message, self._writer.session)
        )

    def answer(self, message: str) -> Message | None:
        """Return the stored state of an answer, None if it was deleted."""
        return self._read(chat_reads.load_message, message)

    def route_counts(self) -> dict[str, int]:
        """Return the number of answers by route over all chats, including `local`."""
        return self._read(row_reads.route_counts)

    def model_speeds(self) -> dict[str, ModelSpeed]:
        """Return the measured speed of each model, by name."""
        return self._read(row_reads.model_speeds)

    def search(self, text: str, limit: int = 50) -> list[SearchHit]:
        """Return messages that match the typed text, best first; any text is a valid query.

        The newest search wins: an older one still running raises `SearchSuperseded`.
        """
        from .chat_search import search_chats
        from .search_query import parse_query

        ticket = self._newest_search = next(self._searches)
        self._searcher.interrupt()
        self._writer.flush(PATIENCE)
        with self._searcher.lock:
            if ticket != self._newest_search:
                raise SearchSuperseded
            try:
                with self._damage.reporting():
                    return search_chats(self._searcher.open(), parse_query(text), limit)
            except (OSError, *database_errors()) as error:
                if "interrupted" in str(error):
                    raise SearchSuperseded from error
                self._searcher.close()
                if is_damage(error):
                    self._writer.check()
                raise self._reading_failed(error) from error

    def import_file(self, path: Path, progress: Callable[[ImportReport], bool]) -> ImportReport:
        """Import the chats in another program's file or an own export; each only once.

        `progress` is called in this thread a few times a second, and stops it by returning False.
        """
        from .imports.import_chats import import_chats

        path = path.expanduser()
        if path.resolve() == self.database.path.resolve():
            raise HistoryError("These are ingle's own chats, which are already here.")
        self._writer.flush(PATIENCE)
        try:
            with self._importing, closing(self.database.connect()) as connection:
                return import_chats(connection, path, progress)
        except (OSError, *database_errors()) as error:
            raise HistoryError(
                f"The chats cannot be imported: {storage_trouble(error)}."
            ) from error

    def unlock(self, passphrase: str) -> None:
        """Unlock encrypted chats, and write pending records; raises `WrongPassphrase`."""
        folder = self.database.folder
        try:
            self.database.unlock(passphrase)
        except WrongPassphrase:
            if not opens_copy(folder, passphrase):
                raise
            # The passphrase opens the backup, hence it is right and the database is damaged.
            self.database.unlock(passphrase, is_right=True)
            self._writer.check()
        except (OSError, *database_errors()) as error:
            raise self._reading_failed(error) from error
        self._writer.wake()

    def unlock_with_keyring(self) -> bool:
        """Unlock encrypted chats with the passphrase in the keyring; return whether it worked."""
        from .database.system_keyring import load_passphrase

        passphrase = load_passphrase(self.database.folder)
        if passphrase is None:
            return False
        try:
            self.unlock(passphrase)
        except HistoryError:
            return False
        return True

    def remember(self, wanted: bool) -> None:
        """Store the passphrase in the keyring, or delete it; raises `HistoryError`."""
        from .database.system_keyring import delete_passphrase, store_passphrase

        if not wanted:
            delete_passphrase(self.database.folder)
        elif self.database.passphrase is not None:
            store_passphrase(self.database.folder, self.database.passphrase)

    def encrypt(self, passphrase: str) -> None:
        """Encrypt the chats; raises `HistoryError` if that is not possible."""
        self._convert(lambda: self.database.encrypt(passphrase))

    def decrypt(self) -> None:
        """Decrypt the chats; raises `HistoryError`."""
        self._convert(self.database.decrypt)

    def _convert(self, conversion: Callable[[], None]) -> None:
        """Convert the database file, while records wait in memory."""
        try:
            if not self._writer.pause():
                raise HistoryError("The chats are still being written.", "Try again in a moment.")
            with self._reader.lock, self._searcher.lock, self._importing:
                self._reader.close()
                self._searcher.close()
                wipe_backups(self.database.folder)  # no backup may outlast its passphrase
                conversion()
                if self.database.is_encrypted:
                    wipe_backups(self.database.folder)
        except (OSError, *database_errors()) as error:
            raise HistoryError(f"Nothing was changed: {storage_trouble(error)}.") from error
        finally:
            self._writer.resume()

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Wait until all records are on the disk; return False on a timeout or failure."""
        return self._writer.flush(seconds)

    def close(self) -> bool:
        """Write pending records and close everything; return False if some could not be written."""
        done = self._writer.close()
        for connection in (self._reader, self._searcher):
            with connection.lock:
                connection.close()
        self.database.leave()
        return done

    def _read(
        self, question: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Return the result of `question`, which gets a connection and the arguments."""
        self._writer.flush(PATIENCE)
        with self._reader.lock, self._damage.reporting():
            try:
                return question(self._reader.open(), *args, **kwargs)
            except (OSError, *database_errors()) as error:
                self._reader.close()
                if not self._is_repaired(error):
                    raise self._reading_failed(error) from error
            try:
                return question(self._reader.open(), *args, **kwargs)
            except (OSError, *database_errors()) as error:
                self._reader.close()
                raise self._reading_failed(error) from error

    def _is_repaired(self, error: Exception) -> bool:
        """Return whether the writer has repaired or replaced a damaged database."""
        if not is_damage(error):
            return False
        self._writer.check()
        return self._writer.flush(REPAIR_PATIENCE)

    def _reading_failed(self, error: Exception) -> HistoryError:
        trouble = storage_trouble(error)
        hint = "Free some space on it, then try again." if "disk is full" in trouble else None
        return HistoryError(f"The chats cannot be read: {trouble}.", hint)

    def _ask_writer(self, question: Callable[[Connection], R]) -> R:
        """Run a query that reads and writes in the writer thread, and return its result."""
        answers: list[R] = []
        withdrawn = threading.Event()

        def ask(connection: Connection) -> None:
            if not withdrawn.is_set():
                answers.append(question(connection))

        self._writer.put(ask)
        if not self._writer.flush(PATIENCE) or not answers:
            withdrawn.set()
            raise HistoryError("The chats cannot be written now.", "Try again in a moment.")
        return answers[-1]
