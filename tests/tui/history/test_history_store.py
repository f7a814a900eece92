"""The history store: saving and loading chats, concurrency, damage, and write errors."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import Attachment, CompactionRecord, Message, MessageFacts
from ingle.tui.history.database.history_errors import HistoryError
from ingle.tui.history.history_store import HistoryStore, open_history

if TYPE_CHECKING:
    from .conftest import MakeStore, NewSavedChat, Problems, SavedChat

StateOf = Callable[[Chat | None], object]


def test_saved_chat_is_loaded_unchanged(
    saved_chat: SavedChat, make_store: MakeStore, state_of: StateOf
) -> None:
    chat, store = saved_chat.chat, saved_chat.store
    prompt = saved_chat.add_prompt("What is a tide?")
    first = saved_chat.answer("The sea ", "moves.")
    second = saved_chat.answer("It is the moon.", parent=prompt)
    saved_chat.add_prompt("And the sun?")
    saved_chat.answer("Also.")
    chat.choose(first)
    store.choose(chat.id, first.id)
    chat.settings.title = "Tides"
    chat.settings.sampling = {"temperature": 0.5}
    store.set_settings(chat.id, chat.settings)
    second.pinned = True
    store.pin(second.id, True)
    compaction = CompactionRecord(at=first.id, summary="The sea.", kept=(prompt.id,))
    chat.add_compaction(compaction)
    store.add_compaction(chat.id, compaction)
    chat.undo_compaction(compaction.id)
    store.undo_compaction(chat.id, compaction.id)

    assert store.flush()
    assert state_of(make_store().load(chat.id)) == state_of(chat)


def test_selected_branch_follows_choices_and_additions(
    saved_chat: SavedChat, state_of: StateOf
) -> None:
    chat, store = saved_chat.chat, saved_chat.store
    root = saved_chat.add_prompt("one")
    answers = [saved_chat.answer(str(index), parent=root) for index in range(3)]
    for choice in (0, 2, 1):
        chat.choose(answers[choice])
        store.choose(chat.id, answers[choice].id)
    saved_chat.add_prompt("behind the second")
    saved_chat.answer("fourth", parent=root)
    assert state_of(store.load(chat.id)) == state_of(chat)
    chat.choose(answers[1])
    store.choose(chat.id, answers[1].id)
    assert state_of(store.load(chat.id)) == state_of(chat)


def test_chat_is_opened_at_any_of_its_messages(
    saved_chat: SavedChat, make_store: MakeStore, state_of: StateOf, raw: sqlite3.Connection
) -> None:
    root = saved_chat.add_prompt("one")
    answers = [saved_chat.answer(str(index), parent=root) for index in range(3)]
    saved_chat.add_prompt("behind the second", parent=answers[1])
    saved_chat.answer("end")
    store, name = saved_chat.store, saved_chat.chat.id
    for message in saved_chat.chat.messages.values():
        opened = store.load_at(name, message.id)
        assert opened is not None
        assert message.id in [shown.id for shown in opened.path]
        assert store.flush()
        again = make_store().load_at(name, None)
        assert state_of(again) == state_of(opened), "at the next start, too"
        assert store.message_text(message.id) == message.text
    choices = raw.execute("SELECT count(*) FROM choices").fetchone()
    for at in ("missing", saved_chat.chat.path[-1].id):
        assert state_of(store.load_at(name, at)) == state_of(store.load(name))
    assert store.flush()
    assert raw.execute("SELECT count(*) FROM choices").fetchone() == choices
    assert store.load_at("missing", root.id) is None
    assert store.message_text("missing") == ""


def test_reasoning_and_attachments_are_saved(store: HistoryStore, state_of: StateOf) -> None:
    chat = Chat(ChatSettings(system="Be short.", folder="work"))
    store.add_chat(chat)
    files = (Attachment("a.txt", "alpha\nbeta"), Attachment("b", "\ufffd broken"))
    prompt = chat.add(Message(role="user", content="See.", attachments=files))
    broken = Attachment("b", "\udcff broken")
    store.add_message(chat.id, replace(prompt, attachments=(files[0], broken)))
    answer = chat.add(Message(role="assistant", parent=prompt.id))
    store.add_message(chat.id, answer)
    store.append(answer.id, reasoning="Let me ")
    store.append(answer.id, "Seen", reasoning="see.")
    answer.content, answer.reasoning, answer.generation = "Seen", "Let me see.", "gen-7"
    store.set_generation(answer.id, "gen-7")
    assert state_of(store.load(chat.id)) == state_of(chat)


def test_generation_with_which_a_message_was_added_is_saved(
    saved_chat: SavedChat, state_of: StateOf
) -> None:
    prompt = saved_chat.add_prompt("go on")
    begun = Message(role="assistant", content="begun", parent=prompt.id, generation="gen-1")
    saved_chat.chat.add(begun)
    saved_chat.store.add_message(saved_chat.chat.id, begun)
    assert state_of(saved_chat.store.load(saved_chat.chat.id)) == state_of(saved_chat.chat)


def test_lengths_with_which_a_message_was_added_are_known(saved_chat: SavedChat) -> None:
    """An answer that another program goes on with has text and thoughts, and pieces behind them."""
    store = saved_chat.store
    saved_chat.add_prompt("four")
    begun = Message(role="assistant", content="begun", reasoning="thinking")
    store.add_message(saved_chat.chat.id, begun)
    store.append(begun.id, " and continued", " more")
    assert store.flush(20)
    assert store.given(begun.id) == (5, 8)
    assert store.given(saved_chat.chat.path[0].id) == (4, 0)
    assert store.given("none") == (0, 0)


def test_lone_surrogates_are_replaced(saved_chat: SavedChat, problems: Problems) -> None:
    saved_chat.chat.settings.system = "half \ud83d"
    saved_chat.add_prompt("broken \ud83d half")
    saved_chat.answer("\ude00", "fine")
    loaded = saved_chat.store.load(saved_chat.chat.id)
    assert loaded is not None
    assert [message.content for message in loaded.path] == ["broken \ufffd half", "\ufffdfine"]
    assert problems == []


def test_no_files_are_created_before_the_first_message(folder: Path) -> None:
    store = open_history(folder, pytest.fail)
    assert not folder.exists()
    assert store.close()
    assert not folder.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_files_are_readable_only_by_the_owner(saved_chat: SavedChat, folder: Path) -> None:
    before = os.umask(0)
    try:
        saved_chat.add_prompt("secret")
        saved_chat.store.flush()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert set(modes) == {"history.db", "history.db-wal", "history.db-shm", "history.lock"}
    assert set(modes.values()) == {0o600}


def test_rows_cannot_be_updated(saved_chat: SavedChat, raw: sqlite3.Connection) -> None:
    saved_chat.add_prompt("as it was")
    saved_chat.answer("said")
    saved_chat.store.flush()
    for table, column in (("messages", "content"), ("pieces", "text"), ("settings", "body")):
        with pytest.raises(sqlite3.IntegrityError, match="never rewritten"):
            raw.execute(f"UPDATE {table} SET {column} = ''")


def test_recent_chats_have_titles_folders_and_drafts(
    make_store: MakeStore, new_saved_chat: NewSavedChat
) -> None:
    store = make_store()
    first, second, third = new_saved_chat(store), new_saved_chat(store), new_saved_chat(store)
    for each, text in ((first, "Plan a trip"), (second, "Fix a bug"), (third, "Write a poem")):
        each.add_prompt(text)
        each.answer("Yes.")
    first.chat.settings.pinned = True
    store.set_settings(first.chat.id, first.chat.settings)
    second.chat.settings.folder = "work"
    store.set_settings(second.chat.id, second.chat.settings)
    store.save_draft(third.chat.id, "and then")
    store.save_draft("nothing-said", "hello")
    listed = store.recent()
    assert [summary.title for summary in listed] == [
        "Plan a trip",
        "hello",
        "Write a poem",
        "Fix a bug",
    ]
    assert [summary.messages for summary in listed] == [2, 0, 2, 2]
    assert [summary.draft for summary in listed] == ["", "hello", "and then", ""]
    assert listed[0].pinned
    assert listed[3].model == "tiny"
    assert [summary.title for summary in store.recent(folder="work")] == ["Fix a bug"]
    assert store.folders() == [("work", 1)]
    assert store.draft(third.chat.id) == "and then"
    drafted = store.load("nothing-said")
    assert drafted is not None
    assert drafted.path == []
    store.save_draft("nothing-said", "")
    assert store.load("nothing-said") is None


def test_prompts_are_unique_and_newest_first(saved_chat: SavedChat) -> None:
    for text in ("one", "two", "one"):
        saved_chat.add_prompt(text)
        saved_chat.answer("ok")
    assert saved_chat.store.prompts() == ["one", "two"]
    assert saved_chat.store.prompts(1) == ["one"]


def test_model_speeds_are_medians(saved_chat: SavedChat) -> None:
    for _ in range(3):
        saved_chat.add_prompt("go")
        saved_chat.answer("gone")
    speed = saved_chat.store.model_speeds()["tiny"]
    assert (speed.answers, speed.tokens_per_second, speed.first_token) == (3, 40.0, 0.1)


def test_routes_of_all_answers_are_counted(saved_chat: SavedChat) -> None:
    assert saved_chat.store.route_counts() == {}
    for _ in range(2):
        saved_chat.add_prompt("go")
        saved_chat.answer("gone")
    saved_chat.add_prompt("far")
    far = saved_chat.answer("away", end=False)
    saved_chat.store.end_message(far.id, "answered", MessageFacts(route="remote"))
    assert saved_chat.store.route_counts() == {"local": 2, "remote": 1}


def test_unfinished_answers_of_dead_programs_are_claimed_once(
    make_store: MakeStore, new_saved_chat: NewSavedChat, raw: sqlite3.Connection
) -> None:
    store = make_store()
    saved_chat = new_saved_chat(store)
    saved_chat.add_prompt("go on")
    answer = saved_chat.answer("half", end=False)
    store.set_generation(answer.id, "gen-3")
    assert store.unfinished() == []  # this program still writes it
    store.flush()
    raw.execute("INSERT INTO sessions(pid, started) VALUES (?, 5)", (os.getpid(),))
    dead = raw.execute("SELECT max(row) FROM sessions").fetchone()[0]
    row = raw.execute("SELECT row FROM messages WHERE id = ?", (answer.id,)).fetchone()[0]
    raw.execute(
        "INSERT INTO generations(message, generation, session) VALUES (?, 'gen-3', ?)", (row, dead)
    )
    first, second = make_store(), make_store()
    left = first.unfinished()
    assert [(each.message, each.generation) for each in left] == [(answer.id, "gen-3")]
    assert second.unfinished() == []


def test_concurrent_programs_see_each_others_chats(
    make_store: MakeStore, new_saved_chat: NewSavedChat
) -> None:
    one, other = new_saved_chat(make_store()), new_saved_chat(make_store())

    def add_messages(saved_chat: SavedChat) -> None:
        for index in range(40):
            saved_chat.add_prompt(f"prompt {index}")
            saved_chat.answer("a", "b")

    threads = [
        threading.Thread(target=add_messages, args=(saved_chat,)) for saved_chat in (one, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.store.flush(20)
    assert other.store.flush(20)
    assert {summary.messages for summary in one.store.recent()} == {80}
    assert len(other.store.recent()) == 2


def test_concurrent_settings_changes_are_merged(
    make_store: MakeStore, new_saved_chat: NewSavedChat
) -> None:
    saved_chat, other = new_saved_chat(make_store()), make_store()
    saved_chat.add_prompt("hello")
    assert saved_chat.store.flush()
    seen = other.load(saved_chat.chat.id)
    assert seen is not None
    saved_chat.chat.settings.system = "Be brief."
    saved_chat.store.set_settings(saved_chat.chat.id, saved_chat.chat.settings)
    assert saved_chat.store.flush()
    seen.settings.pinned = True
    other.set_settings(seen.id, seen.settings)
    assert other.flush()
    saved_chat.chat.settings.title = "Greetings"
    saved_chat.store.set_settings(saved_chat.chat.id, saved_chat.chat.settings)
    assert saved_chat.store.settings(saved_chat.chat.id) == ChatSettings(
        title="Greetings", system="Be brief.", pinned=True
    )


def test_chat_deleted_by_another_program_is_reported(
    make_store: MakeStore, new_saved_chat: NewSavedChat, problems: Problems
) -> None:
    store, other = make_store(), make_store()
    gone, kept = new_saved_chat(store), new_saved_chat(store)
    gone.add_prompt("to be deleted")
    kept.add_prompt("to stay")
    store.flush()
    other.delete_chat(gone.chat.id)
    other.flush()
    gone.answer("too late")
    kept.answer("in time")
    store.flush()
    assert [summary.messages for summary in store.recent()] == [2]
    assert len(problems) == 1
    assert "deleted in another window" in problems[0]


def test_newer_database_version_is_refused(
    raw: sqlite3.Connection, saved_chat: SavedChat, problems: Problems, folder: Path
) -> None:
    raw.execute("CREATE TABLE chats(from_the_future)")
    raw.execute("PRAGMA user_version = 99")
    saved_chat.add_prompt("hello")
    saved_chat.store.flush()
    assert "newer ingle" in problems[0]
    assert len(problems) == 1
    with pytest.raises(HistoryError, match="newer ingle"):
        saved_chat.store.recent()
    assert [path.name for path in folder.glob("*.db")] == ["history.db"]
    assert saved_chat.store.close()


def test_damaged_database_is_set_aside(
    folder: Path, make_store: MakeStore, new_saved_chat: NewSavedChat, problems: Problems
) -> None:
    folder.mkdir(parents=True)
    (folder / "history.db").write_bytes(b"this was a database once" * 400)
    saved_chat = new_saved_chat(make_store())
    saved_chat.add_prompt("still here")
    assert [summary.title for summary in saved_chat.store.recent()] == ["Still here"]
    aside = [path for path in folder.iterdir() if "damaged" in path.name]
    assert [path.read_bytes()[:8] for path in aside] == [b"this was"]
    assert len(problems) == 1
    assert aside[0].name in problems[0]


def test_damage_found_while_reading_is_set_aside(
    folder: Path, make_store: MakeStore, new_saved_chat: NewSavedChat, problems: Problems
) -> None:
    saved_chat = new_saved_chat(make_store())
    for _ in range(200):
        saved_chat.add_prompt("fill the pages " * 20)
    assert saved_chat.store.close()
    path = folder / "history.db"
    content = bytearray(path.read_bytes())
    for start in range(4096 * 30, len(content), 4096):
        content[start : start + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    store = make_store()
    chat = store.load(saved_chat.chat.id)
    assert chat is not None  # its row is in one of the first pages
    assert len(chat.messages) < 200
    fresh = new_saved_chat(store)
    fresh.add_prompt("a new beginning")
    assert store.recent()[0].title == "A new beginning"
    assert "set aside" in problems[0]


def test_damaged_search_index_is_rebuilt(
    saved_chat: SavedChat, raw: sqlite3.Connection, problems: Problems
) -> None:
    for number in range(50):
        saved_chat.add_prompt(f"the word xylophone{number} is here")
        saved_chat.answer(f"and zither{number} there")
    saved_chat.answer("half of an answer", end=False)
    assert saved_chat.store.flush()
    raw.execute("PRAGMA busy_timeout = 5000")
    raw.execute("DELETE FROM words_data WHERE id > 10")
    with pytest.raises(HistoryError):
        saved_chat.store.search("xylophone7")
    assert saved_chat.store.flush(10)
    assert len(saved_chat.store.search("xylophone7")) == 1
    assert len(saved_chat.store.search("zither31")) == 1
    saved_chat.store.delete_chat(saved_chat.chat.id)
    assert saved_chat.store.flush()
    raw.execute("INSERT INTO words(words) VALUES ('integrity-check')")
    assert saved_chat.store.search("xylophone7") == []
    assert problems == []


def test_sound_database_of_another_program_is_not_set_aside(
    make_store: MakeStore, new_saved_chat: NewSavedChat, folder: Path, problems: Problems
) -> None:
    late = new_saved_chat(make_store())
    late.add_prompt("fill the pages " * 200)
    assert late.store.flush()
    for name in ("history.db", "history.db-wal", "history.db-shm"):
        (folder / name).rename(folder / f"aside-{name}")
    early = new_saved_chat(make_store())
    early.add_prompt("a new beginning")
    assert early.store.flush()
    for path in folder.glob("aside-*"):
        path.write_bytes(b"\xff" * path.stat().st_size)
    other = new_saved_chat(late.store)
    other.add_prompt("behind the others")
    assert late.store.flush(10)
    assert list(folder.glob("*.damaged-*")) == []
    titles = {summary.title for summary in early.store.recent()}
    assert titles == {"A new beginning", "Behind the others"}


def test_write_error_is_reported_once_and_retried(
    saved_chat: SavedChat, folder: Path, problems: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingle.tui.history import history_writer

    monkeypatch.setattr(history_writer, "RETRY", 0.05)
    saved_chat.add_prompt("before")
    saved_chat.store.flush()
    assert saved_chat.store.database.path.exists()
    saved_chat.store._writer.pause()  # pyright: ignore[reportPrivateUsage]
    aside = folder.with_name("elsewhere")
    folder.rename(aside)
    folder.write_text("a file is in the way")
    saved_chat.store._writer.resume()  # pyright: ignore[reportPrivateUsage]
    saved_chat.add_prompt("during")
    saved_chat.answer("held ", "in memory")
    assert not saved_chat.store.flush()
    saved_chat.add_prompt("still during")
    assert len(problems) == 1
    assert "cannot be kept now" in problems[0]
    assert not saved_chat.store.is_able
    folder.unlink()
    aside.rename(folder)
    saved_chat.store._writer.wake()  # pyright: ignore[reportPrivateUsage]
    assert saved_chat.store.flush(10)
    loaded = saved_chat.store.load(saved_chat.chat.id)
    assert loaded is not None
    assert [message.content for message in loaded.path] == [
        "before",
        "during",
        "held in memory",
        "still during",
    ]
    assert problems[1:] == ["Chats are kept again; nothing is missing."]
    assert saved_chat.store.is_able


def test_full_disk_is_reported_and_recovered(
    saved_chat: SavedChat, problems: Problems, raw: sqlite3.Connection
) -> None:
    saved_chat.add_prompt("before")
    saved_chat.store.flush()
    connection = saved_chat.store._writer._connection  # pyright: ignore[reportPrivateUsage]
    assert connection is not None
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    saved_chat.add_prompt("too long for this disk " * 5000)
    saved_chat.store.flush()
    assert ["the disk is full" in problem for problem in problems] == [True]
    saved_chat.store._writer.wake()  # pyright: ignore[reportPrivateUsage]
    assert saved_chat.store.flush(10)  # the limit applied to the closed connection
    assert raw.execute("SELECT count(*) FROM messages").fetchone()[0] == 2
    assert raw.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


READ_AND_LEAVE = """
import sys
from pathlib import Path
from ingle.tui.history.history_store import open_history

store = open_history(Path(sys.argv[1]), print)
print(sum(summary.messages for summary in store.recent()))
store.close()
"""


def test_program_that_reads_and_exits_does_not_block_others(
    saved_chat: SavedChat, folder: Path
) -> None:
    def read_elsewhere() -> int:
        command = [sys.executable, "-P", "-c", READ_AND_LEAVE, str(folder)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    saved_chat.add_prompt("one")
    assert saved_chat.store.recent()  # over a second connection
    assert read_elsewhere() == 1
    saved_chat.add_prompt("two")
    assert saved_chat.store.flush()
    assert read_elsewhere() == 2


def test_own_database_cannot_be_imported(saved_chat: SavedChat) -> None:
    saved_chat.add_prompt("one")
    assert saved_chat.store.flush()
    with pytest.raises(HistoryError, match="own"):
        saved_chat.store.import_file(saved_chat.store.database.path, lambda _: True)


def test_unwritable_message_does_not_block_others(
    saved_chat: SavedChat, problems: Problems
) -> None:
    saved_chat.add_prompt("before")
    saved_chat.store.add_message(
        saved_chat.chat.id, Message(role="user", content="odd", created=1 << 70)
    )
    saved_chat.add_prompt("behind")
    assert saved_chat.store.flush()
    loaded = saved_chat.store.load(saved_chat.chat.id)
    assert loaded is not None
    assert [message.content for message in loaded.path] == ["before", "behind"]
    assert "could not be kept" in problems[0]
