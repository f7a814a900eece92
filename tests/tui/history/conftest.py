"""Fixtures for the history: stores in a temporary folder, and chats that are saved as they grow."""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.history.database.database_encryption import open_file
from ingle.tui.history.history_store import HistoryStore, open_history

MakeStore = Callable[[], HistoryStore]


class Problems(list[str]):
    """The problems that the store reported to the user."""


@pytest.fixture
def quick_keys() -> Iterator[None]:
    """Keys of encrypted chats are derived in this process by 1,000 rounds, in 1 ms each."""
    if importlib.util.find_spec("sqlcipher3") is None:
        yield
        return
    with closing(open_file(Path(":memory:"), "any")) as connection:
        (rounds,) = connection.execute("PRAGMA kdf_iter").fetchone()
        connection.execute("PRAGMA cipher_default_kdf_iter = 1000")
        yield
        connection.execute(f"PRAGMA cipher_default_kdf_iter = {rounds}")


@pytest.fixture
def problems() -> Problems:
    return Problems()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "chats"


@pytest.fixture
def make_store(folder: Path, problems: Problems) -> Iterator[MakeStore]:
    """Each call opens the same chats like another program."""
    stores: list[HistoryStore] = []

    def make() -> HistoryStore:
        stores.append(open_history(folder, problems.append))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def store(make_store: MakeStore) -> HistoryStore:
    return make_store()


class SavedChat:
    """A chat that is kept in memory and saved as it grows, as the screen does."""

    def __init__(self, store: HistoryStore, chat: Chat | None = None) -> None:
        self.store = store
        self.chat = chat or Chat()
        self.is_kept = False

    def add_prompt(self, text: str, parent: Message | None = None) -> Message:
        """Add a prompt after the last message, or after `parent`."""
        leaf = parent or self.chat.leaf
        return self._add(Message(role="user", content=text, parent=leaf and leaf.id))

    def answer(self, *pieces: str, parent: Message | None = None, end: bool = True) -> Message:
        """Add an answer that arrives in pieces."""
        leaf = parent or self.chat.leaf
        message = self._add(Message(role="assistant", parent=leaf and leaf.id, model="tiny"))
        for piece in pieces:
            message.content += piece
            self.store.append(message.id, piece)
        if end:
            message.ending = "answered"
            message.facts = MessageFacts(completion_tokens=20, decode_seconds=0.5, first_token=0.1)
            self.store.end_message(message.id, message.ending, message.facts)
        return message

    def _add(self, message: Message) -> Message:
        if not self.is_kept:
            self.store.add_chat(self.chat)
            self.is_kept = True
        self.chat.add(message)
        self.store.add_message(self.chat.id, message)
        return message


NewSavedChat = Callable[[HistoryStore], SavedChat]


@pytest.fixture
def new_saved_chat() -> NewSavedChat:
    """Starts a chat in a store."""
    return SavedChat


@pytest.fixture
def saved_chat(store: HistoryStore) -> SavedChat:
    return SavedChat(store)


def chat_state(chat: Chat | None) -> object:
    """The whole state of a chat, for comparisons."""
    assert chat is not None
    return (
        chat.id,
        chat.created,
        chat.settings,
        list(chat.messages.values()),
        [message.id for message in chat.path],
        sorted(chat.chosen_ids()),
        chat.compactions,
        chat.undone,
    )


@pytest.fixture
def state_of() -> Callable[[Chat | None], object]:
    return chat_state


@pytest.fixture
def bytes_on_disk(folder: Path) -> Callable[[], bytes]:
    """Reads the content of every file in the data folder."""

    def read() -> bytes:
        files = [path for path in folder.parent.rglob("*") if path.is_file()]
        return b"\n".join(path.read_bytes() for path in files)

    return read


@pytest.fixture
def raw(folder: Path) -> Iterator[sqlite3.Connection]:
    """A separate SQLite connection to the database."""
    folder.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(folder / "history.db", isolation_level=None, timeout=0)
    yield connection
    connection.close()
