"""Random sequences of operations on a chat: the stored state equals the state in memory."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Attachment, CompactionRecord, Message, MessageFacts

if TYPE_CHECKING:
    from ingle.tui.history.history_store import HistoryStore

    from .conftest import MakeStore

WORDS = ("tide", "京都の", "café", "x\x00y", "\n\n", "`code`", "🙂", "don't", "ไทย", "a" * 300)


class RandomChat:
    """A chat with random operations, applied in memory and in the store."""

    def __init__(self, store: HistoryStore, seed: int) -> None:
        self.removes = seed % 2 == 0
        self.store = store
        self.random = random.Random(seed)
        self.chat = Chat()
        self.removed = False
        store.add_chat(self.chat)

    def step(self) -> None:
        often = [self.add_prompt, self.add_answer, self.end] * 2 + [self.grow] * 3
        act = self.random.choice(
            [*often, self.choose, self.pin, self.compact, self.remove, self.flush]
        )
        act()

    def text(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, 6)))

    def pick(self) -> Message | None:
        messages = list(self.chat.messages.values())
        return self.random.choice(messages) if messages else None

    def add_prompt(self) -> None:
        parent = self.pick()
        files = (Attachment("file", self.text()),) if self.random.random() < 0.3 else ()
        self._add(Message(role="user", content=self.text(), attachments=files), parent)

    def add_answer(self) -> None:
        parent = self.pick()
        if parent is not None:
            self._add(Message(role="assistant", model="tiny"), parent)

    def _add(self, message: Message, parent: Message | None) -> None:
        message.parent = None if parent is None else parent.id
        self.chat.add(message)
        self.store.add_message(self.chat.id, message)

    def grow(self) -> None:
        message = self.pick()
        if message is not None and message.role == "assistant":
            text, thought = self.text(), self.random.choice(["", self.text()])
            message.content += text
            message.reasoning += thought
            self.store.append(message.id, text, thought)

    def end(self) -> None:
        message = self.pick()
        if message is not None and message.role == "assistant":
            message.ending = self.random.choice(["answered", "stopped"])
            message.facts = MessageFacts(completion_tokens=self.random.randint(0, 9))
            self.store.end_message(message.id, message.ending, message.facts)

    def choose(self) -> None:
        message = self.pick()
        if message is not None:
            self.chat.choose(message)
            self.store.choose(self.chat.id, message.id)

    def pin(self) -> None:
        message = self.pick()
        if message is not None:
            message.pinned = not message.pinned
            self.store.pin(message.id, message.pinned)

    def compact(self) -> None:
        message = self.pick()
        if message is not None:
            compaction = CompactionRecord(at=message.id, summary=self.text())
            self.chat.add_compaction(compaction)
            self.store.add_compaction(self.chat.id, compaction)
            if self.random.random() < 0.5:
                self.chat.undo_compaction(compaction.id)
                self.store.undo_compaction(self.chat.id, compaction.id)

    def remove(self) -> None:
        message = self.pick() if self.removes else None
        if message is not None and self.random.random() < 0.2:
            self.removed = True
            gone = {each.id for each in self.chat.remove(message)}
            self.store.remove_message(self.chat.id, message.id)
            for name, compaction in list(self.chat.compactions.items()):
                if compaction.at in gone:
                    del self.chat.compactions[name]
                    self.chat.undone.discard(name)

    def flush(self) -> None:
        if self.random.random() < 0.3:
            self.store.flush()


@pytest.mark.parametrize("seed", range(12))
def test_random_operations_are_stored(
    make_store: MakeStore, state_of: Callable[[Chat | None], object], seed: int
) -> None:
    store = make_store()
    random_chat = RandomChat(store, seed)
    for _ in range(150):
        random_chat.step()
    loaded = store.load(random_chat.chat.id)
    assert loaded is not None
    assert list(loaded.messages.values()) == list(random_chat.chat.messages.values())
    assert loaded.compactions == random_chat.chat.compactions
    assert loaded.undone == random_chat.chat.undone
    # If the selected branch was deleted, another sibling may be selected.
    if not random_chat.removed:
        assert state_of(loaded) == state_of(random_chat.chat)
    store.delete_chat(random_chat.chat.id)
    store.close()
    with closing(sqlite3.connect(store.database.path)) as connection:
        connection.execute("INSERT INTO words(words) VALUES ('integrity-check')")
        assert connection.execute("SELECT count(*) FROM words_idx").fetchone() == (0,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
