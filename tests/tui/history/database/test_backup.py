"""Backups of the chats: restore after damage, encryption, deletion, and the daily schedule."""

from __future__ import annotations

import importlib.util
import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.history import history_writer
from ingle.tui.history.database import backup
from ingle.tui.history.database.backup import DAY, back_up, check_for, is_due
from ingle.tui.history.database.database_encryption import open_file
from ingle.tui.history.database.history_errors import HistoryError, WrongPassphrase
from ingle.tui.history.database.history_files import (
    BACKUP,
    ENCRYPTED,
    PLAIN,
    copies_of,
    copy_of,
    original,
)
from ingle.tui.history.history_store import HistoryStore

if TYPE_CHECKING:
    from ..conftest import MakeStore, NewSavedChat, Problems, SavedChat

pytestmark = pytest.mark.usefixtures("quick_keys", "synced_renames")

PAGE = 4096
PASSPHRASE = "it's a 'long' one"
ENCRYPTING = pytest.param(
    PASSPHRASE,
    marks=pytest.mark.skipif(
        importlib.util.find_spec("sqlcipher3") is None, reason="SQLCipher is not installed"
    ),
    id="encrypted",
)


def make_copy(
    folder: Path, passphrase: str | None = None, reports: list[str] | None = None
) -> bool:
    """Back up the chats over a separate connection; returns whether there is a backup now."""
    reports = [] if reports is None else reports
    with closing(open_file(original(folder, passphrase), passphrase, timeout=5.0)) as connection:
        return back_up(folder, passphrase, connection, reports.append)


def flip_bits(path: Path) -> None:
    content = bytearray(path.read_bytes())
    chance = random.Random(3)
    for _ in range(200):
        place = chance.randrange(100, len(content))
        content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def zero_a_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[PAGE : 2 * PAGE] = bytes(PAGE)
    path.write_bytes(content)


def truncate_to_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite_header(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough.." + path.read_bytes()[40:])


def truncate_to_zero(path: Path) -> None:
    os.truncate(path, 0)


@pytest.fixture(params=[pytest.param(None, id="plain")])
def passphrase(request: pytest.FixtureRequest) -> str | None:
    """The passphrase of the chats; `with_and_without_passphrase` runs a test both ways."""
    return request.param


with_and_without_passphrase = pytest.mark.parametrize(
    "passphrase", [pytest.param(None, id="plain"), ENCRYPTING], indirect=True
)


def open_store(make_store: MakeStore, passphrase: str | None) -> HistoryStore:
    """Open and unlock the chats like another program."""
    store = make_store()
    if passphrase is not None:
        store.unlock(passphrase)
    return store


@pytest.fixture
def backed_up_chat(
    make_store: MakeStore, new_saved_chat: NewSavedChat, folder: Path, passphrase: str | None
) -> str:
    """The id of a chat with a backup of 200 messages and ten newer messages."""
    saved_chat = new_saved_chat(make_store())
    if passphrase is not None:
        saved_chat.store.encrypt(passphrase)
    for number in range(200):
        saved_chat.add_prompt(f"number {number} " * 20)
    assert saved_chat.store.flush(300)
    assert make_copy(folder, passphrase)
    for number in range(10):
        saved_chat.add_prompt(f"later {number}")
    assert saved_chat.store.close()
    return saved_chat.chat.id


@with_and_without_passphrase
@pytest.mark.parametrize(
    "break_",
    [
        zero_a_page,
        *(
            pytest.param(break_, marks=pytest.mark.slow)
            for break_ in (flip_bits, truncate_to_half, overwrite_header)
        ),
    ],
)
def test_damaged_database_is_restored_from_the_backup(
    backed_up_chat: str,
    folder: Path,
    make_store: MakeStore,
    new_saved_chat: NewSavedChat,
    problems: Problems,
    passphrase: str | None,
    break_: Callable[[Path], None],
) -> None:
    database = original(folder, passphrase)
    break_(database)
    store = open_store(make_store, passphrase)
    saved_chat = new_saved_chat(store)
    saved_chat.add_prompt("a new beginning")
    assert store.flush(300)
    titles = [summary.title for summary in store.recent()]
    assert titles[0] == "A new beginning"
    chat = store.load(backed_up_chat)
    assert chat is not None
    assert 200 <= len(chat.messages) <= 210  # the backup, and what is readable of the rest
    assert len(problems) == 1
    assert "with the help of the backup of" in problems[0]
    aside = [path.name for path in folder.glob("history.*damaged-*.db")]
    assert len(aside) == 1
    assert aside[0] in problems[0]
    assert len(store.load(saved_chat.chat.id).messages) == 1  # pyright: ignore[reportOptionalMemberAccess]
    with closing(store.database.connect()) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert store.close()
    assert database.stat().st_mode & 0o077 == 0


@with_and_without_passphrase
def test_backup_of_encrypted_chats_is_unreadable(
    backed_up_chat: str, folder: Path, passphrase: str | None, bytes_on_disk: Callable[[], bytes]
) -> None:
    in_the_clear = passphrase is None
    assert copy_of(folder, passphrase).exists()
    assert (b"number 7 " in bytes_on_disk()) is in_the_clear
    assert (b"CREATE TABLE" in copy_of(folder, passphrase).read_bytes()) is in_the_clear


@pytest.mark.parametrize("passphrase", [ENCRYPTING], indirect=True)
def test_wrong_passphrase_is_rejected_for_damaged_chats(
    backed_up_chat: str, folder: Path, make_store: MakeStore, passphrase: str
) -> None:
    overwrite_header(folder / ENCRYPTED)
    store = make_store()
    with pytest.raises(WrongPassphrase):
        store.unlock("it's a wrong one")
    assert store.database.is_locked
    assert [path.name for path in folder.glob("*damaged*")] == []


@pytest.mark.parametrize("passphrase", [ENCRYPTING], indirect=True)
def test_backup_is_deleted_when_the_passphrase_changes(
    backed_up_chat: str, folder: Path, make_store: MakeStore, passphrase: str
) -> None:
    store = open_store(make_store, passphrase)
    store.decrypt()
    assert not copy_of(folder, passphrase).exists()
    assert make_copy(folder)
    store.encrypt("quite another one")
    assert store.close()
    assert list(folder.glob("*backup*")) == []
    again = make_store()
    with pytest.raises(WrongPassphrase):
        again.unlock(passphrase)
    again.unlock("quite another one")
    chat = again.load(backed_up_chat)
    assert chat is not None
    assert len(chat.messages) == 210


def test_deleted_wal_loses_only_its_messages(
    saved_chat: SavedChat,
    folder: Path,
    make_store: MakeStore,
    new_saved_chat: NewSavedChat,
    problems: Problems,
) -> None:
    saved_chat.add_prompt("first")
    assert saved_chat.store.close()  # writes the WAL into the file
    later = new_saved_chat(make_store())
    later.add_prompt("second")
    assert later.store.flush()
    assert (folder / f"{PLAIN}-wal").stat().st_size
    without_wal = (folder / PLAIN).read_bytes()
    assert later.store.close()
    (folder / PLAIN).write_bytes(without_wal)
    store = make_store()
    assert [summary.id for summary in store.recent()] == [saved_chat.chat.id]
    chat = store.load(saved_chat.chat.id)
    assert chat is not None
    assert [message.text for message in chat.messages.values()] == ["first"]
    assert problems == []


def test_damaged_backup_is_not_restored(
    backed_up_chat: str,
    folder: Path,
    make_store: MakeStore,
    new_saved_chat: NewSavedChat,
    problems: Problems,
) -> None:
    overwrite_header(folder / "history.db")
    flip_bits(folder / BACKUP)
    store = make_store()
    new_saved_chat(store).add_prompt("a new beginning")
    assert store.flush(300)
    chat = store.load(backed_up_chat)
    assert chat is not None
    assert len(chat.messages) == 210  # all of them from the pages of the damaged file
    assert "backup" not in problems[0]


def test_damaged_chats_do_not_overwrite_the_backup(backed_up_chat: str, folder: Path) -> None:
    good = (folder / BACKUP).read_bytes()
    zero_a_page(folder / "history.db")
    with suppress(sqlite3.DatabaseError):
        assert not make_copy(folder)
    assert (folder / BACKUP).read_bytes() == good
    assert list(folder.glob("*.part")) == []


@pytest.mark.parametrize("lose", [Path.unlink, truncate_to_zero])
@with_and_without_passphrase
def test_missing_or_empty_database_is_restored_from_the_backup(
    backed_up_chat: str,
    folder: Path,
    make_store: MakeStore,
    problems: Problems,
    passphrase: str | None,
    lose: Callable[[Path], None],
) -> None:
    lose(original(folder, passphrase))
    store = open_store(make_store, passphrase)
    chat = store.load(backed_up_chat)
    assert chat is not None
    assert len(chat.messages) == 200
    assert len(problems) == 1
    assert "Recovered: 1 chat with 200 messages" in problems[0]
    assert copy_of(folder, passphrase).exists()


def test_backups_are_kept_in_generations(
    saved_chat: SavedChat, folder: Path, make_store: MakeStore
) -> None:
    for number in range(1, 6):
        saved_chat.add_prompt(f"number {number}")
        assert saved_chat.store.flush()
        assert make_copy(folder)
    counts = list[int]()
    for copy in copies_of(folder, None):
        with closing(open_file(copy, None)) as connection:
            counts.append(connection.execute("SELECT count(*) FROM messages").fetchone()[0])
    assert counts == [5, 4, 3]


@pytest.mark.parametrize(("moment", "kept"), [("sync_file", True), ("sync_names", False)])
def test_messages_deleted_during_a_backup_are_not_in_it(
    saved_chat: SavedChat,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    kept: bool,
) -> None:
    """`kept` is whether the backup before it is still the newest one."""
    saved_chat.add_prompt("marigold")
    saved_chat.add_prompt("xylophone")
    assert saved_chat.store.flush()
    assert make_copy(folder)
    sync = getattr(backup, moment)

    def delete_before(path: Path) -> None:
        with closing(open_file(folder / PLAIN, None, timeout=5.0)) as connection:
            connection.execute("DELETE FROM messages WHERE row = 2")
        sync(path)

    monkeypatch.setattr(backup, moment, delete_before)
    assert not make_copy(folder)
    assert copy_of(folder, None).exists() is kept
    assert list(folder.glob("*.part")) == []


@pytest.mark.parametrize("sound", [[False], [True, False]], ids=["chats", "copy"])
def test_damaged_backup_does_not_replace_a_sound_one(
    saved_chat: SavedChat, folder: Path, monkeypatch: pytest.MonkeyPatch, sound: list[bool]
) -> None:
    saved_chat.add_prompt("marigold")
    assert saved_chat.store.flush()
    assert make_copy(folder)
    before = copy_of(folder, None).read_bytes()
    saved_chat.add_prompt("later")
    assert saved_chat.store.flush()
    found = iter(sound)

    def is_sound(_: sqlite3.Connection) -> bool:
        return next(found)

    monkeypatch.setattr(backup, "is_sound", is_sound)
    assert not make_copy(folder)
    assert copy_of(folder, None).read_bytes() == before
    assert list(found) == []
    assert len(list(folder.glob(f"{BACKUP}*"))) == 1


def test_check_ends_when_its_time_is_over(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t(a)")
        count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        connection.execute(f"INSERT INTO t {count} SELECT nullif(i, 20000) FROM n")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = 'CREATE TABLE t(a NOT NULL)'")
    with closing(open_file(path, None)) as connection:
        assert check_for(connection, -1.0) == "ok", "the damage is in the last row"
        assert check_for(connection, 60.0) == "NULL value in t.a"
        assert connection.execute(f"{count} SELECT count(*) FROM n").fetchone()[0] == 20_000


def test_backup_with_more_messages_is_kept(
    backed_up_chat: str, folder: Path, make_store: MakeStore, new_saved_chat: NewSavedChat
) -> None:
    with closing(open_file(folder / PLAIN, None)) as connection:
        connection.execute("DELETE FROM messages WHERE row > 50")  # not by ingle
    saved_chat = new_saved_chat(make_store())
    saved_chat.add_prompt("later")
    assert saved_chat.store.close()
    reports: list[str] = []
    for number in range(4):
        with closing(open_file(folder / PLAIN, None)) as connection:
            connection.execute("INSERT INTO sessions(pid, started) VALUES (?, 0.5)", (number,))
        assert make_copy(folder, reports=reports)
    assert len(reports) == 1
    (kept,) = folder.glob(f"{BACKUP}.kept-*")
    assert kept.name in reports[0]
    with closing(open_file(kept, None)) as connection:
        assert connection.execute("SELECT count(*) FROM messages").fetchone()[0] == 200


def test_deleting_a_chat_deletes_it_from_the_backup(
    make_store: MakeStore,
    new_saved_chat: NewSavedChat,
    folder: Path,
    bytes_on_disk: Callable[[], bytes],
) -> None:
    store = make_store()
    gone, kept = new_saved_chat(store), new_saved_chat(store)
    gone.add_prompt("xylophone " * 50)
    kept.add_prompt("marigold")
    assert store.flush()
    assert make_copy(folder)
    assert b"xylophone" in (folder / BACKUP).read_bytes()
    store.delete_chat(gone.chat.id)
    assert store.flush(300)
    assert store.close()
    assert not (folder / BACKUP).exists()
    assert b"xylophone" not in bytes_on_disk()


@with_and_without_passphrase
def test_backup_is_made_once_a_day_while_chatting(
    monkeypatch: pytest.MonkeyPatch,
    make_store: MakeStore,
    new_saved_chat: NewSavedChat,
    folder: Path,
    passphrase: str | None,
) -> None:
    copy = copy_of(folder, passphrase)
    monkeypatch.setattr(history_writer, "BACKUP_AFTER", 0.0)
    monkeypatch.setattr(history_writer, "BACKUP_PAUSE", 0.0)
    saved_chat = new_saved_chat(make_store())
    if passphrase is not None:
        saved_chat.store.encrypt(passphrase)
    saved_chat.add_prompt("hello")
    assert saved_chat.store.flush()
    deadline = time.monotonic() + 120
    while not copy.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    made = copy.stat()
    saved_chat.add_prompt("more")
    assert saved_chat.store.close()
    assert copy.stat().st_ino == made.st_ino
    assert made.st_mode & 0o077 == 0
    assert not is_due(copy, made.st_mtime + DAY - 1)
    assert is_due(copy, made.st_mtime + DAY)
    assert is_due(copy, made.st_mtime - 3600)  # the clock was set back


def test_read_only_folder_is_reported_and_readable(
    backed_up_chat: str,
    folder: Path,
    make_store: MakeStore,
    new_saved_chat: NewSavedChat,
    problems: Problems,
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    folder.chmod(0o500)
    try:
        store = make_store()
        new_saved_chat(store).add_prompt("held in memory")
        store.flush()
        assert "cannot be written" in problems[0]
        try:
            assert store.load(backed_up_chat) is not None
        except HistoryError:
            assert "cannot be" in problems[0]
    finally:
        folder.chmod(0o700)
