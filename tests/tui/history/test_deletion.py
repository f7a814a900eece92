"""Deletion: deleted chats and messages are gone from the files and the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from ingle.tui.chats.chat import Chat

if TYPE_CHECKING:
    from .conftest import MakeStore, NewSavedChat, SavedChat

StateOf = Callable[[Chat | None], object]


def test_deleted_chat_is_gone_from_all_files(
    make_store: MakeStore, new_saved_chat: NewSavedChat, bytes_on_disk: Callable[[], bytes]
) -> None:
    store = make_store()
    kept, gone = new_saved_chat(store), new_saved_chat(store)
    for index in range(30):
        for saved_chat, word in ((kept, "marigold"), (gone, "xylophone")):
            saved_chat.add_prompt(f"{word} prompt {index}")
            saved_chat.answer(f"{word} ", f"answer {index}")
        store.flush()
    gone.chat.settings.title = "about the xylophone"
    store.set_settings(gone.chat.id, gone.chat.settings)
    store.save_draft(gone.chat.id, "xylophone draft")
    store.flush()
    assert b"xylophone" in bytes_on_disk()
    store.delete_chat(gone.chat.id)
    assert store.flush(10)
    store.close()
    assert b"xylo" not in bytes_on_disk()
    assert b"marigold" in bytes_on_disk()
    assert store.load(gone.chat.id) is None


def test_deleting_a_message_deletes_its_descendants(
    saved_chat: SavedChat, raw: sqlite3.Connection, state_of: StateOf
) -> None:
    chat, store = saved_chat.chat, saved_chat.store
    root = saved_chat.add_prompt("root")
    first = saved_chat.answer("the aardvark")
    saved_chat.add_prompt("more of the aardvark")
    saved_chat.answer("yes")
    saved_chat.answer("the badger", parent=root)
    chat.choose(first)
    store.choose(chat.id, first.id)
    chat.remove(first)
    store.remove_message(chat.id, first.id)
    assert state_of(store.load(chat.id)) == state_of(chat)
    assert raw.execute("SELECT count(*) FROM messages").fetchone()[0] == 2
    find = "SELECT count(*) FROM words WHERE words MATCH ?"
    assert raw.execute(find, ("aardvark",)).fetchone()[0] == 0
    assert raw.execute(find, ("badger",)).fetchone()[0] == 1
    store.close()
    assert raw.execute("SELECT count(*) FROM chores").fetchone()[0] == 0


def test_deletion_is_finished_once_no_other_program_reads(
    saved_chat: SavedChat, raw: sqlite3.Connection, bytes_on_disk: Callable[[], bytes]
) -> None:
    store = saved_chat.store
    saved_chat.add_prompt("marigold")
    gone = saved_chat.add_prompt("xylophone")
    assert store.flush()
    raw.execute("BEGIN")
    assert raw.execute("SELECT count(*) FROM messages").fetchone()[0] == 2
    store.remove_message(saved_chat.chat.id, gone.id)
    assert store.flush()
    assert b"xylophone" in bytes_on_disk()
    raw.execute("COMMIT")
    store.save_draft(saved_chat.chat.id, "any write")
    assert store.flush()
    assert store.load(saved_chat.chat.id) is not None
    store.close()
    assert raw.execute("SELECT name FROM chores").fetchall() == []
    assert b"xylophone" not in bytes_on_disk()


def test_search_index_of_a_continued_answer_is_consistent(
    saved_chat: SavedChat, raw: sqlite3.Connection
) -> None:
    saved_chat.add_prompt("go")
    answer = saved_chat.answer("first half")
    saved_chat.store.append(answer.id, " second half")
    saved_chat.store.end_message(answer.id, "answered", answer.facts)
    saved_chat.store.flush()
    find = "SELECT count(*) FROM words WHERE words MATCH ?"
    assert raw.execute(find, ('"first half second half"',)).fetchone()[0] == 1
    saved_chat.store.delete_chat(saved_chat.chat.id)
    saved_chat.store.close()
    assert raw.execute("SELECT count(*) FROM words_idx").fetchone()[0] == 0
