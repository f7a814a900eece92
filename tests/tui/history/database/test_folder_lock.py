"""The folder lock: shared by many programs, or exclusive to one, until the program ends."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingle.tui.history.database import database
from ingle.tui.history.database.database import FolderLock


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FolderLock]]:
    monkeypatch.setattr(database, "LOCK_PATIENCE", 0.0)
    made = [FolderLock(tmp_path) for _ in range(3)]
    yield made
    for lock in made:
        lock.release()


def test_lock_is_shared_or_exclusive(locks: list[FolderLock]) -> None:
    first, second, third = locks
    first.share()
    second.share()
    assert not third.take()
    assert not first.take()
    first.release()
    second.release()
    third.share()
    assert third.take()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        first.share()
    assert not second.take()
    third.release()
    first.share()


@pytest.mark.skipif(sys.platform == "win32", reason="modes of Unix")
def test_lock_file_is_private(locks: list[FolderLock], tmp_path: Path) -> None:
    locks[0].share()
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


HOLD = """
import sys
from pathlib import Path
from ingle.tui.history.database.database import FolderLock

lock = FolderLock(Path(sys.argv[1]))
getattr(lock, sys.argv[2])()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["share", "take"])
def test_lock_works_across_processes_and_ends_with_them(
    locks: list[FolderLock], tmp_path: Path, how: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD, str(tmp_path), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert not locks[0].take()
        if how == "share":
            locks[0].share()
            locks[0].release()
        else:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                locks[0].share()
        other.kill()
    assert locks[0].take()
