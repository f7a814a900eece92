"""How the database is opened and set aside, what its errors mean, and what a recovery says."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from ingle.tui.history.database.backup import ABANDONED, back_up, check_for, is_due, wipe_deleted
from ingle.tui.history.database.database import (
    Database,
    damage,
    is_conflict,
    is_damage,
    is_unwritable,
    storage_trouble,
)
from ingle.tui.history.database.history_errors import HistoryError
from ingle.tui.history.database.history_files import (
    BACKUP,
    PLAIN,
    copies_of,
    is_lost,
    make_private,
    recovered,
)
from ingle.tui.history.database.recovery import Recovery

ERRORS: list[tuple[Exception, bool, bool, str]] = [
    (damage("x"), True, False, "malformed: x"),
    (sqlite3.DatabaseError("file is not a database"), True, False, "file is not a database"),
    (sqlite3.OperationalError("database or disk is full"), False, False, "the disk is full"),
    (OSError(errno.ENOSPC, "No space left"), False, False, "the disk is full"),
    (
        OSError(errno.EACCES, "Permission denied"),
        *(False, False, "the folder of the chats cannot be written to"),
    ),
    (
        sqlite3.OperationalError("attempt to write a readonly database"),
        *(False, False, "the folder of the chats cannot be written to"),
    ),
    (
        sqlite3.OperationalError("unable to open database file"),
        *(False, False, "the folder of the chats cannot be written to"),
    ),
    (
        sqlite3.OperationalError("disk I/O error"),
        *(False, False, "the disk is full, or fails"),
    ),
    (
        sqlite3.OperationalError("database is locked"),
        *(False, False, "another program holds the chats"),
    ),
    (sqlite3.OperationalError("busy"), False, False, "another program holds the chats"),
    (sqlite3.IntegrityError("UNIQUE"), False, False, "UNIQUE"),
    (sqlite3.ProgrammingError("bad value"), False, True, "bad value"),
    (sqlite3.DataError("too big"), False, True, "too big"),
    (sqlite3.InterfaceError("type"), False, True, "type"),
    (UnicodeEncodeError("utf-8", "x", 0, 1, "surrogate"), False, True, "'utf-8' codec"),
    (HistoryError("Newer.", "Update."), False, True, "Newer."),
    (sqlite3.OperationalError(""), False, False, "OperationalError"),
]


@pytest.mark.parametrize(("error", "damaged", "unwritable", "said"), ERRORS, ids=repr)
def test_error_means_one_thing(
    error: Exception, damaged: bool, unwritable: bool, said: str
) -> None:
    assert is_damage(error) is damaged
    assert is_unwritable(error) is unwritable
    assert is_conflict(error) is isinstance(error, sqlite3.IntegrityError)
    assert storage_trouble(error).startswith(said)


def test_connection_is_private_durable_and_patient(folder: Path) -> None:
    database = Database(folder)
    with closing(database.connect()) as connection:
        pragmas = ("busy_timeout", "foreign_keys", "secure_delete", "journal_mode", "synchronous")
        values = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
        assert values == [5000, 1, 1, "wal", 2]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for path in folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
        assert (database.path, database.key, database.is_locked) == (folder / PLAIN, None, False)
    database.leave()


def test_files_are_set_aside_by_free_names_with_their_logs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", "now".format)
    folder.mkdir(parents=True)
    database = Database(folder)
    assert database.set_aside() is None
    for content in ("1", "2", "3"):
        database.path.write_text(content)
        database.path.with_name(f"{PLAIN}-wal").write_text(f"log {content}")
        database.set_aside()
    names = [f"history.damaged-now{number}.db" for number in ("", "-2", "-3")]
    assert database.replaced == 4
    assert database.unencrypted_leftovers() == sorted(names)
    for number, name in enumerate(names, 1):
        assert (folder / name).read_text() == str(number)
        assert (folder / f"{name}-wal").read_text() == f"log {number}"
    assert not (folder / f"{PLAIN}-wal").exists()


def test_recovered_database_takes_only_a_free_place(folder: Path) -> None:
    with closing(Database(folder).connect()):
        pass
    database, new = Database(folder), recovered(folder, None)
    new.write_text("new")
    database.put_recovered()
    assert new.exists(), "another program was faster"
    database.path.unlink()
    database.path.with_name(f"{PLAIN}-wal").write_text("old log")
    database.put_recovered()
    assert database.path.read_text() == "new"
    assert not new.exists()
    assert not database.path.with_name(f"{PLAIN}-wal").exists()


def test_empty_file_beside_a_backup_is_lost(folder: Path) -> None:
    folder.mkdir(parents=True)
    assert not is_lost(folder, None)
    backup = folder / BACKUP
    backup.write_text("copy")
    assert is_lost(folder, None)
    (folder / PLAIN).touch()
    assert is_lost(folder, None)
    (folder / PLAIN).write_text("x")
    assert not is_lost(folder, None)
    for name, age in ((f"{BACKUP}.1", 5), (f"{BACKUP}.kept-2026", 9), (f"{BACKUP}.7.part", 1)):
        (folder / name).touch()
        made = backup.stat().st_mtime - age
        os.utime(folder / name, (made, made))
    assert copies_of(folder, None) == [
        backup,
        folder / f"{BACKUP}.1",
        folder / f"{BACKUP}.kept-2026",
    ]


def test_only_foreign_modes_are_changed(tmp_path: Path) -> None:
    open_to_all, own, target = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    for path, mode in ((open_to_all, 0o644), (own, 0o400), (target, 0o640)):
        path.touch()
        path.chmod(mode)
    link = tmp_path / "link"
    link.symlink_to(target)
    for path in (open_to_all, own, link, tmp_path / "new"):
        make_private(path)
    modes = [
        stat.S_IMODE(path.stat().st_mode) for path in (open_to_all, own, target, tmp_path / "new")
    ]
    assert modes == [0o600, 0o400, 0o640, 0o600]


def test_backup_is_due_after_a_day_to_the_second(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    assert is_due(copy, 0)
    copy.touch()
    os.utime(copy, (1000, 1000))
    ages = {-1: True, 0: False, 86399: False, 86400: True}
    assert {age: is_due(copy, 1000 + age) for age in ages} == ages


def test_parts_of_killed_backups_are_wiped_after_an_hour(folder: Path) -> None:
    with closing(Database(folder).connect()) as connection:
        parts = [folder / f"{BACKUP}.{number}.part" for number in (1, 2)]
        for part, age in zip(parts, (ABANDONED - 60, ABANDONED + 60), strict=True):
            part.touch()
            os.utime(part, (time.time() - age, time.time() - age))
        assert back_up(folder, None, connection, pytest.fail)
        assert [part.exists() for part in parts] == [True, False]
        assert check_for(connection, 10) == check_for(connection, -1) == "ok"
        assert wipe_deleted(connection)
        connection.execute("INSERT INTO chores(name) VALUES ('wipe')")
        assert not back_up(folder, None, connection, pytest.fail), "deleted chats are still in it"
        assert wipe_deleted(connection)
        assert list(folder.glob(f"{BACKUP}*")) == []
        assert connection.execute("SELECT count(*) FROM chores").fetchone() == (0,)


@pytest.mark.parametrize(
    ("aside", "made", "chats", "whole", "said"),
    [
        (
            *("old.db", None, 0, False),
            "The chats on the disk are damaged. They were set aside as old.db. None could be "
            "recovered; new ones are kept from now on.",
        ),
        (
            *("old.db", None, 1, True),
            "The chats on the disk are damaged. They were set aside as old.db. Recovered: 1 chat "
            "with 1 234 messages; nothing is missing.",
        ),
        (
            *("old.db", 0.0, 2000, False),
            "The chats on the disk are damaged. They were set aside as old.db. Recovered: 2 000 "
            "chats with 1 234 messages, with the help of the backup of {epoch}; some of the file "
            "could not be read.",
        ),
        (
            *(None, 0.0, 2, True),
            "The database of the chats was missing. Recovered: 2 chats with 1 234 messages, with "
            "the help of the backup of {epoch}; later messages are lost.",
        ),
    ],
)
def test_recovery_says_what_is_lost(
    aside: str | None, made: float | None, chats: int, whole: bool, said: str
) -> None:
    epoch = time.strftime("%Y-%m-%d %H:%M", time.localtime(0))
    recovery = Recovery(set_aside=aside, copy_made=made, chats=chats, messages=1234, is_whole=whole)
    assert str(recovery) == said.format(epoch=epoch)
