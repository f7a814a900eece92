"""The thread that writes records: pauses, batches, failures, and its end."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.history import history_writer
from ingle.tui.history.database.database import Database
from ingle.tui.history.history_writer import CHAT_GONE, HistoryWriter

if TYPE_CHECKING:
    from .conftest import SavedChat


class Writing:
    """A writer, what it reported, and notes that say when they were written."""

    def __init__(self, folder: Path) -> None:
        self.problems: list[str] = []
        self.written: list[str] = []
        self.writer = HistoryWriter(Database(folder), self.problems.append)

    def note(self, connection: sqlite3.Connection, name: str) -> None:
        assert connection.in_transaction
        connection.execute("INSERT INTO drafts(chat, text, changed) VALUES (?, '', 0)", (name,))
        self.written.append(name)

    def fail(self, connection: sqlite3.Connection, errors: list[Exception]) -> None:
        """Fail with the next of the errors; record its end after the last."""
        self.note(connection, f"failed {len(errors)}")
        if errors:
            raise errors.pop(0)

    def kept(self, folder: Path) -> list[str]:
        with closing(sqlite3.connect(folder / "history.db")) as connection:
            return [chat for (chat,) in connection.execute("SELECT chat FROM drafts ORDER BY chat")]


@pytest.fixture
def writing(folder: Path) -> Iterator[Writing]:
    found = Writing(folder)
    yield found
    found.writer.close()


def test_records_of_a_pause_are_written_after_it(writing: Writing) -> None:
    writer = writing.writer
    writer.put(writing.note, "before")
    assert writer.pause()
    writer.put(writing.note, "during")
    time.sleep(0.2)  # the thread has seen the record, and waits again
    assert writing.written == ["before"]
    writer.resume()
    assert writer.flush(30)
    assert writer.close()
    assert (writing.written, writing.problems) == (["before", "during"], [])


def test_two_pauses_end_with_the_second(writing: Writing) -> None:
    assert writing.writer.pause()
    assert writing.writer.pause()
    writing.writer.put(writing.note, "a")
    writing.writer.resume()
    time.sleep(0.05)
    assert writing.written == []
    writing.writer.resume()
    assert writing.writer.flush(30)
    assert writing.written == ["a"]


def test_records_are_written_without_a_flush(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_writer, "INTERVAL", 0.05)
    for name in "abc":
        ended = threading.Event()

        def note(connection: sqlite3.Connection, ended: threading.Event = ended) -> None:
            ended.set()

        writing.writer.put(writing.note, name)
        writing.writer.put(note)
        assert ended.wait(30)


def test_pieces_of_an_answer_are_joined_until_something_follows(
    saved_chat: SavedChat, raw: sqlite3.Connection
) -> None:
    saved_chat.add_prompt("Hi")
    answer, store = saved_chat.answer(end=False), saved_chat.store
    store.flush()
    writer = store._writer  # pyright: ignore[reportPrivateUsage]
    order: list[str] = []
    assert writer.pause()
    for text, thought in (("a", "x"), ("b", ""), ("c", "y")):
        store.append(answer.id, text, thought)
    writer.put_after_text(answer.id, lambda _: order.append("after"))
    store.append(answer.id, "d")
    writer.put(lambda _: order.append("last"))
    writer.resume()
    assert store.flush()
    pieces = raw.execute("SELECT text, reasoning FROM pieces ORDER BY number").fetchall()
    assert pieces == [("abc", "xy"), ("d", "")]
    store.append(answer.id, "e")
    assert store.flush()
    assert raw.execute("SELECT count(*) FROM pieces").fetchone() == (3,)
    assert order == ["after", "last"]


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ValueError("no text"), "A message could not be kept: no text"),
        (sqlite3.ProgrammingError("bad"), "A message could not be kept: bad"),
        (sqlite3.IntegrityError("FOREIGN KEY"), CHAT_GONE),
    ],
)
def test_record_that_cannot_be_written_is_left_out_alone(
    writing: Writing, folder: Path, error: Exception, problem: str
) -> None:
    writer = writing.writer
    assert writer.pause()
    writer.put(writing.note, "a")
    writer.put(writing.fail, [error, error])
    writer.put(writing.fail, [error, error])
    writer.put(writing.note, "b")
    writer.resume()
    assert writer.flush(30)
    assert writer.close()
    assert writing.kept(folder) == ["a", "b"]
    assert writing.problems == [problem]
    assert writer.is_able


def test_batch_that_fails_is_written_again_as_a_whole(
    writing: Writing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_writer, "RETRY", 0.05)
    writer = writing.writer
    assert writer.pause()
    writer.put(writing.note, "a")
    full = sqlite3.OperationalError("database or disk is full")
    writer.put(writing.fail, [full, full])
    writer.resume()
    while "Chats are kept again; nothing is missing." not in writing.problems:
        time.sleep(0.002)
    assert writer.flush(30)
    assert writer.is_able
    assert writing.kept(folder) == ["a", "failed 0"]
    assert writing.written == ["a", "failed 2", "a", "failed 1", "a", "failed 0"]
    assert len(writing.problems) == 2
    assert writing.problems[0].startswith("Chats cannot be kept now: the disk is full.")


def test_end_without_a_disk_is_reported_as_such(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(_: Database) -> sqlite3.Connection:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Database, "connect", connect)
    writer = writing.writer
    assert writer.flush(0), "nothing is to be written"
    assert writer.is_able
    writer.put(writing.note, "a")
    assert not writer.flush(30)
    assert not writer.is_able
    writer.put(writing.note, "b")
    assert not writer.flush(30), "it does not wait for what fails"
    assert not writer.close(30)
    assert len(writing.problems) == 1


def test_locked_chats_wait_and_end_without_being_written(
    writing: Writing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: Callable[[Database], bool] = lambda _: True  # noqa: E731
    monkeypatch.setattr(Database, "is_locked", property(locked))
    writer = writing.writer
    writer.put(writing.note, "a")
    assert not writer.flush(30)
    assert not writer.is_able
    assert not writer.close(30)
    assert (writing.written, writing.problems) == ([], [])
    assert not folder.exists()


@pytest.mark.parametrize(("after", "made"), [(0.0, True), (3600.0, False)])
def test_backup_begins_once_the_program_has_run_for_a_while(
    writing: Writing, folder: Path, monkeypatch: pytest.MonkeyPatch, after: float, made: bool
) -> None:
    begun: list[Path] = []

    class Begun:
        is_running = False

        def __init__(self, folder: Path, *_: object) -> None:
            begun.append(folder)

        def stop(self, seconds: float) -> bool:
            return True

    monkeypatch.setattr(history_writer, "Backup", Begun)
    monkeypatch.setattr(history_writer, "BACKUP_AFTER", after)
    for name in "abc":
        writing.writer.put(writing.note, name)
        assert writing.writer.flush(30)
    assert writing.writer.close()
    assert begun == [folder] * made, "the next one only after an hour"
