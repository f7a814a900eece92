"""Damage of every kind costs what was said since the last copy, and nothing begins broken."""

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
from ingle.tui.history.database.backup import BACKUP, DAY, back_up, copy_of, is_due, restore
from ingle.tui.history.database.database import ENCRYPTED, PLAIN
from ingle.tui.history.database.database_encryption import open_file
from ingle.tui.history.database.history_errors import HistoryError, WrongPassphrase
from ingle.tui.history.history_store import HistoryStore

if TYPE_CHECKING:
    from ..conftest import Keeper, MakeStore, NewKeeper, Troubles

PAGE = 4096
PASSPHRASE = "it's a 'long' one"
ENCRYPTING = pytest.param(
    PASSPHRASE,
    marks=pytest.mark.skipif(
        importlib.util.find_spec("sqlcipher3") is None, reason="SQLCipher is not installed"
    ),
    id="encrypted",
)


def make_copy(folder: Path, passphrase: str | None = None) -> bool:
    """Back up the chats over a connection of the test's own; whether there is a copy now."""
    original = folder / (PLAIN if passphrase is None else ENCRYPTED)
    with closing(open_file(original, passphrase, timeout=5.0)) as connection:
        return back_up(folder, passphrase, connection)


def flip(path: Path) -> None:
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


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def scribble(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough" + path.read_bytes()[40:])


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.fixture(params=[pytest.param(None, id="plain")])
def passphrase(request: pytest.FixtureRequest) -> str | None:
    """Of the chats; `both_ways` has tests run with and without one."""
    return request.param


both_ways = pytest.mark.parametrize(
    "passphrase", [pytest.param(None, id="plain"), ENCRYPTING], indirect=True
)


def opened(make_store: MakeStore, passphrase: str | None) -> HistoryStore:
    """Another program that opens the chats."""
    store = make_store()
    if passphrase is not None:
        store.unlock(passphrase)
    return store


def original(folder: Path, passphrase: str | None) -> Path:
    return folder / (PLAIN if passphrase is None else ENCRYPTED)


@pytest.fixture
def said(make_store: MakeStore, new_keeper: NewKeeper, folder: Path, passphrase: str | None) -> str:
    """A chat of two hundred messages that has a copy, and ten more since; its id."""
    keeper = new_keeper(make_store())
    if passphrase is not None:
        keeper.store.encrypt(passphrase)
    for number in range(200):
        keeper.say(f"number {number} " * 20)
    assert keeper.store.flush(10)
    assert make_copy(folder, passphrase)
    for number in range(10):
        keeper.say(f"later {number}")
    assert keeper.store.close()
    return keeper.chat.id


@pytest.mark.slow
@both_ways
@pytest.mark.parametrize("break_", [flip, zero_a_page, cut, scribble])
def test_what_was_copied_comes_back(
    said: str,
    folder: Path,
    make_store: MakeStore,
    new_keeper: NewKeeper,
    troubles: Troubles,
    passphrase: str | None,
    break_: Callable[[Path], None],
) -> None:
    database = original(folder, passphrase)
    break_(database)
    store = opened(make_store, passphrase)
    keeper = new_keeper(store)
    keeper.say("a new beginning")
    assert store.flush(10)
    titles = [summary.title for summary in store.recent()]
    assert titles[0] == "A new beginning"
    chat = store.load(said)
    assert chat is not None
    assert len(chat.messages) == 200
    assert len(troubles) == 1
    assert "are back in their place" in troubles[0]
    aside = [path.name for path in folder.glob("history.*damaged-*.db")]
    assert len(aside) == 1
    assert aside[0] in troubles[0]
    assert len(store.load(keeper.chat.id).messages) == 1  # pyright: ignore[reportOptionalMemberAccess]
    with closing(store.database.connect()) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert store.close()
    assert database.stat().st_mode & 0o077 == 0


@both_ways
def test_nothing_of_an_encrypted_copy_can_be_read(
    said: str, folder: Path, passphrase: str | None, bytes_on_disk: Callable[[], bytes]
) -> None:
    in_the_clear = passphrase is None
    assert copy_of(folder, passphrase).exists()
    assert (b"number 7 " in bytes_on_disk()) is in_the_clear
    assert (b"CREATE TABLE" in copy_of(folder, passphrase).read_bytes()) is in_the_clear


@pytest.mark.parametrize("passphrase", [ENCRYPTING], indirect=True)
def test_another_passphrase_is_wrong_even_where_the_chats_are_damaged(
    said: str, folder: Path, make_store: MakeStore, passphrase: str
) -> None:
    scribble(folder / ENCRYPTED)
    store = make_store()
    with pytest.raises(WrongPassphrase):
        store.unlock("it's a wrong one")
    assert store.database.is_locked
    assert [path.name for path in folder.glob("*damaged*")] == []


@pytest.mark.slow
@pytest.mark.parametrize("passphrase", [ENCRYPTING], indirect=True)
def test_no_copy_outlasts_its_passphrase(
    said: str, folder: Path, make_store: MakeStore, passphrase: str
) -> None:
    store = opened(make_store, passphrase)
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
    chat = again.load(said)
    assert chat is not None
    assert len(chat.messages) == 210


def test_a_log_that_was_deleted_costs_its_messages_only(
    keeper: Keeper, folder: Path, make_store: MakeStore, tmp_path: Path, troubles: Troubles
) -> None:
    keeper.say("first")
    assert keeper.store.flush()
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "history.db").write_bytes((folder / "history.db").read_bytes())  # without its log
    assert keeper.store.close()
    (folder / "history.db").write_bytes((copy / "history.db").read_bytes())
    store = make_store()
    assert store.recent() == [] or len(store.recent()) == 1
    assert troubles == []


def test_a_damaged_copy_is_not_put_in_anybodys_place(
    said: str, folder: Path, make_store: MakeStore, new_keeper: NewKeeper, troubles: Troubles
) -> None:
    scribble(folder / "history.db")
    flip(folder / BACKUP)
    store = make_store()
    new_keeper(store).say("a new beginning")
    assert store.flush(10)
    assert [summary.title for summary in store.recent()] == ["A new beginning"]
    assert "new ones are kept" in troubles[0]
    assert restore(folder) is None


def test_a_copy_is_made_of_sound_chats_only(said: str, folder: Path) -> None:
    good = (folder / BACKUP).read_bytes()
    zero_a_page(folder / "history.db")
    with suppress(sqlite3.DatabaseError):
        assert not make_copy(folder)
    assert (folder / BACKUP).read_bytes() == good
    assert list(folder.glob("*.part")) == []


def test_what_is_deleted_goes_from_the_copy(
    make_store: MakeStore, new_keeper: NewKeeper, folder: Path, bytes_on_disk: Callable[[], bytes]
) -> None:
    store = make_store()
    gone, kept = new_keeper(store), new_keeper(store)
    gone.say("xylophone " * 50)
    kept.say("marigold")
    assert store.flush()
    assert make_copy(folder)
    assert b"xylophone" in (folder / BACKUP).read_bytes()
    store.delete_chat(gone.chat.id)
    assert store.flush(10)
    assert store.close()
    assert not (folder / BACKUP).exists()
    assert b"xylophone" not in bytes_on_disk()


@both_ways
def test_one_copy_a_day_is_made_while_chatting(
    monkeypatch: pytest.MonkeyPatch,
    make_store: MakeStore,
    new_keeper: NewKeeper,
    folder: Path,
    passphrase: str | None,
) -> None:
    copy = copy_of(folder, passphrase)
    monkeypatch.setattr(history_writer, "BACKUP_AFTER", 0.0)
    monkeypatch.setattr(history_writer, "BACKUP_PAUSE", 0.0)
    keeper = new_keeper(make_store())
    if passphrase is not None:
        keeper.store.encrypt(passphrase)
    keeper.say("hello")
    assert keeper.store.flush()
    deadline = time.monotonic() + 10
    while not copy.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    made = copy.stat()
    keeper.say("more")
    assert keeper.store.close()
    assert copy.stat().st_ino == made.st_ino
    assert made.st_mode & 0o077 == 0
    assert not is_due(copy, made.st_mtime + DAY - 1)
    assert is_due(copy, made.st_mtime + DAY)
    assert is_due(copy, made.st_mtime - 3600)  # the clock was wrong once


def test_a_folder_that_is_read_only_is_told_and_read(
    said: str, folder: Path, make_store: MakeStore, new_keeper: NewKeeper, troubles: Troubles
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    folder.chmod(0o500)
    try:
        store = make_store()
        new_keeper(store).say("held in memory")
        store.flush()
        assert "cannot be written" in troubles[0]
        try:
            assert store.load(said) is not None
        except HistoryError:
            assert "cannot be" in troubles[0]
    finally:
        folder.chmod(0o700)
