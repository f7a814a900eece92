"""Damage of every kind costs what was said since the last copy, and nothing begins broken."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.history import writer
from ingle.tui.history.backup import BACKUP, DAY, back_up, is_due, restore
from ingle.tui.history.errors import HistoryError

if TYPE_CHECKING:
    from .conftest import Keeper, MakeStore, NewKeeper, Troubles

PAGE = 4096


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


@pytest.fixture
def said(make_store: MakeStore, new_keeper: NewKeeper, folder: Path) -> str:
    """A chat of two hundred messages that has a copy, and ten more since; its id."""
    keeper = new_keeper(make_store())
    for number in range(200):
        keeper.say(f"number {number} " * 20)
    assert keeper.store.flush(10)
    assert back_up(folder)
    for number in range(10):
        keeper.say(f"later {number}")
    assert keeper.store.close()
    return keeper.chat.id


@pytest.mark.parametrize("break_", [flip, zero_a_page, cut, scribble])
def test_what_was_copied_comes_back(
    said: str,
    folder: Path,
    make_store: MakeStore,
    new_keeper: NewKeeper,
    troubles: Troubles,
    break_: Callable[[Path], None],
) -> None:
    break_(folder / "history.db")
    store = make_store()
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
    aside = [path.name for path in folder.glob("history.damaged-*.db")]
    assert len(aside) == 1
    assert aside[0] in troubles[0]
    assert store.close()
    with closing(sqlite3.connect(folder / "history.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert (folder / "history.db").stat().st_mode & 0o077 == 0


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
        assert not back_up(folder)
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
    assert back_up(folder)
    assert b"xylophone" in (folder / BACKUP).read_bytes()
    store.delete_chat(gone.chat.id)
    assert store.flush(10)
    assert store.close()
    assert not (folder / BACKUP).exists()
    assert b"xylophone" not in bytes_on_disk()


def test_one_copy_a_day_is_made_while_chatting(
    monkeypatch: pytest.MonkeyPatch, make_store: MakeStore, new_keeper: NewKeeper, folder: Path
) -> None:
    monkeypatch.setattr(writer, "BACKUP_AFTER", 0.0)
    monkeypatch.setattr(writer, "BACKUP_PAUSE", 0.0)
    keeper = new_keeper(make_store())
    keeper.say("hello")
    assert keeper.store.flush()
    deadline = time.monotonic() + 10
    while not (folder / BACKUP).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    made = (folder / BACKUP).stat()
    keeper.say("more")
    assert keeper.store.close()
    assert (folder / BACKUP).stat().st_ino == made.st_ino
    assert made.st_mode & 0o077 == 0
    assert not is_due(folder, made.st_mtime + DAY - 1)
    assert is_due(folder, made.st_mtime + DAY)
    assert is_due(folder, made.st_mtime - 3600)  # the clock was wrong once


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
