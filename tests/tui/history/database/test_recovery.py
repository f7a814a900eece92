"""Recovery of damaged chats: rows from damaged pages, damaged values, foreign files."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import ChatSettings
from ingle.tui.chats.message import Attachment, Message, MessageFacts
from ingle.tui.history.database.database_encryption import open_file
from ingle.tui.history.database.history_files import ENCRYPTED, PLAIN
from ingle.tui.history.database.page_rows import PageFile
from ingle.tui.history.history_store import HistoryStore

if TYPE_CHECKING:
    from ..conftest import MakeStore, NewSavedChat, Problems, SavedChat

PAGE = 4096
CHATS = 8
PROMPTS = 12


@pytest.fixture
def filled(folder: Path, make_store: MakeStore, new_saved_chat: NewSavedChat) -> bytes:
    """Eight chats of twelve prompts and answers, some of them over several pages; the file."""
    store = make_store()
    for chat in range(CHATS):
        saved_chat = new_saved_chat(store)
        for number in range(PROMPTS):
            saved_chat.add_prompt(f"chat {chat} prompt {number} " * (1, 30, 500)[number % 3])
            saved_chat.answer(f"answer {number} ", "goes on " * 20)
        title = ChatSettings(title=f"Title {chat}")
        store.set_settings(saved_chat.chat.id, title)
    assert store.close()
    return (folder / PLAIN).read_bytes()


def prompts(store: HistoryStore) -> dict[str, dict[str, str]]:
    """The texts of the prompts of all chats, by the ids of chat and message."""
    found: dict[str, dict[str, str]] = {}
    for summary in store.recent():
        chat = store.load(summary.id)
        assert chat is not None
        found[chat.id] = {
            message.id: message.text for message in chat.path if message.role == "user"
        }
    return found


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))]
)
def test_one_zeroed_page_loses_only_its_own_rows(
    filled: bytes, folder: Path, make_store: MakeStore, problems: Problems, seed: int
) -> None:
    chance = random.Random(seed)
    page = 0 if seed == 0 else chance.randrange(len(filled) // PAGE)
    before = prompts(make_store())
    damaged = bytearray(filled)
    damaged[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    (folder / PLAIN).write_bytes(damaged)
    store = make_store()
    after = prompts(store)
    store.save_draft("new", "the first write checks the whole file")
    assert store.flush(300)
    assert after.keys() == before.keys()
    for chat, texts in before.items():
        for message, text in texts.items():
            on_page = message.encode() in filled[page * PAGE : (page + 1) * PAGE]
            if not on_page and len(text) < PAGE // 2:
                assert after[chat][message] == text
    with closing(open_file(folder / PLAIN, None)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    if problems:
        assert f"{CHATS} chats with" in problems[0]
        assert len(list(folder.glob("history.damaged-*.db"))) == len(problems)


@pytest.mark.skipif(find_spec("sqlcipher3") is None, reason="SQLCipher is not installed")
@pytest.mark.usefixtures("quick_keys", "synced_renames")
def test_zeroed_page_of_encrypted_chats_loses_few_rows(
    filled: bytes, folder: Path, make_store: MakeStore, problems: Problems
) -> None:
    store = make_store()
    before = prompts(store)
    store.encrypt("open sesame")
    assert store.close()
    path = folder / ENCRYPTED
    content = bytearray(path.read_bytes())
    middle = len(content) // PAGE // 2 * PAGE
    content[middle : middle + PAGE] = bytes(PAGE)
    path.write_bytes(content)
    again = make_store()
    again.unlock("open sesame")
    again.save_draft("new", "the first write checks the whole file")
    again.flush(20)
    after = prompts(again)
    kept = {name: text for texts in after.values() for name, text in texts.items()}
    known = {name: text for texts in before.values() for name, text in texts.items()}
    assert kept.items() <= known.items()
    assert len(kept) > CHATS * PROMPTS - 25
    assert len(problems) == 1
    assert "set aside" in problems[0]


@pytest.mark.usefixtures("synced_renames")
@pytest.mark.parametrize("links", [True, False])
def test_header_of_the_file_is_not_needed(
    filled: bytes,
    folder: Path,
    make_store: MakeStore,
    problems: Problems,
    monkeypatch: pytest.MonkeyPatch,
    links: bool,
) -> None:
    """`links` is whether the file system has hard links."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    before = prompts(make_store())
    (folder / PLAIN).write_bytes(bytes(PAGE) + filled[PAGE:])
    assert prompts(make_store()) == before
    assert f"Recovered: {CHATS} chats with {CHATS * 2 * PROMPTS:,} messages" in problems[0]


@pytest.mark.parametrize("size", [512, 4096, 65536])
def test_rows_of_pages_are_those_of_sqlite(tmp_path: Path, size: int) -> None:
    """Values of all types and sizes, in tables with and without row numbers, deep enough for
    interior pages.
    """
    chance = random.Random(size)
    path = tmp_path / "any.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {size}")
        connection.execute("CREATE TABLE numbered(row INTEGER PRIMARY KEY, a, b, c)")
        connection.execute("CREATE TABLE keyed(k TEXT PRIMARY KEY, a, b) WITHOUT ROWID")
        connection.execute("BEGIN")
        rows: list[tuple[object, ...]] = []
        for number in range(1, 400):
            values = [
                chance.choice(
                    [
                        None,
                        0,
                        1,
                        -chance.getrandbits(62),
                        chance.getrandbits(chance.randrange(1, 50)),
                        chance.random(),
                        "ä" * chance.randrange(3000),
                        chance.randbytes(chance.randrange(40)),
                    ]
                )
                for _ in range(3)
            ]
            rows.append((number, *values))
            rows.append((f"key {number}", *values[:2]))
            connection.execute("INSERT INTO numbered VALUES (?, ?, ?, ?)", rows[-2])
            connection.execute("INSERT INTO keyed VALUES (?, ?, ?)", rows[-1])
        connection.execute("COMMIT")
    found = list(PageFile(path).rows())
    schema = [row for row in found if row[0] == "table"]
    assert len(schema) == 2
    assert sorted(map(repr, rows)) == sorted(repr(row) for row in found if row not in schema)


def break_title(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO settings(chat, body)"
        " SELECT chat, CAST(replace(body, 'Title 3', 'Title ' || x'ff') AS TEXT) FROM settings"
        " WHERE body LIKE '%Title 3%'"
    )


def break_settings(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO settings(chat, body) SELECT chat, substr(body, 2) FROM settings"
        " WHERE body LIKE '%Title 3%'"
    )


def break_facts(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO endings(message, ending, facts, pieces)"
        " SELECT message, 'answered', '{\"speed', pieces FROM endings WHERE row = 5"
    )


def break_summary(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO compactions(id, chat, at, body) SELECT 'c', id, 'x', '[]' FROM chats LIMIT 1"
    )


@pytest.mark.parametrize("break_", [break_title, break_settings, break_facts, break_summary])
def test_damaged_value_hides_nothing_else(
    filled: bytes,
    folder: Path,
    make_store: MakeStore,
    problems: Problems,
    break_: Callable[[sqlite3.Connection], None],
) -> None:
    before = prompts(make_store())
    with closing(open_file(folder / PLAIN, None)) as connection:
        break_(connection)
    store = make_store()
    after = prompts(store)
    assert after == before
    titles = {summary.title for summary in store.recent()}
    assert ("Title 3" in titles) == (break_ in (break_facts, break_summary))
    assert len(store.search("prompt")) > 0
    assert store.route_counts() == {"local": CHATS * PROMPTS + (break_ is break_facts)}
    assert store.model_speeds()["tiny"].answers > 0
    reported = [problem for problem in problems if "damaged and were left out" in problem]
    assert bool(reported) == (break_ is not break_title)
    assert len(set(reported)) == len(reported)
    assert list(folder.glob("*damaged*")) == []


def test_chat_with_damaged_attachments_can_be_continued(
    saved_chat: SavedChat, raw: sqlite3.Connection, make_store: MakeStore, problems: Problems
) -> None:
    saved_chat.add_prompt("first")
    with_file = Message(
        role="user",
        content="look",
        parent=saved_chat.chat.leaf and saved_chat.chat.leaf.id,
        attachments=(Attachment(name="a.txt", text="content"),),
    )
    saved_chat._add(with_file)  # pyright: ignore[reportPrivateUsage]
    assert saved_chat.store.close()
    raw.execute("PRAGMA busy_timeout = 5000")
    raw.execute("DROP TRIGGER messages_stay")
    raw.execute("UPDATE messages SET attachments = '[{', role = 'usfr' WHERE row = 2")
    store = make_store()
    chat = store.load(saved_chat.chat.id)
    assert chat is not None
    assert [message.text for message in chat.path] == ["first", "look"]
    assert chat.path[1].facts == MessageFacts()
    assert len(problems) == 1


def test_database_of_another_program_is_left_alone(
    folder: Path,
    raw: sqlite3.Connection,
    make_store: MakeStore,
    new_saved_chat: NewSavedChat,
    problems: Problems,
) -> None:
    raw.execute("CREATE TABLE visits(url TEXT)")
    raw.execute("INSERT INTO visits VALUES ('somewhere')")
    store = make_store()
    new_saved_chat(store).add_prompt("hello")
    store.flush()
    assert "a database of another program" in problems[0]
    assert raw.execute("SELECT name FROM sqlite_schema").fetchall() == [("visits",)]


def test_mode_of_a_link_target_is_left_alone(
    saved_chat: SavedChat, folder: Path, tmp_path: Path, make_store: MakeStore
) -> None:
    saved_chat.add_prompt("hello")
    assert saved_chat.store.close()
    target = tmp_path / "elsewhere.db"
    (folder / PLAIN).rename(target)
    target.chmod(0o644)
    (folder / PLAIN).symlink_to(target)
    assert [summary.title for summary in make_store().recent()] == ["hello"]
    assert target.stat().st_mode & 0o777 == 0o644
