"""The thread that writes records: pauses."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

from ingle.tui.history.database.database import Database
from ingle.tui.history.history_writer import HistoryWriter


def test_records_of_a_pause_are_written_after_it(folder: Path) -> None:
    problems: list[str] = []
    writer = HistoryWriter(Database(folder), problems.append)
    written: list[str] = []
    ended = threading.Event()

    def note(connection: sqlite3.Connection, name: str) -> None:
        written.append(name)
        if name == "during":
            ended.set()

    writer.put(note, "before")
    assert writer.pause()
    writer.put(note, "during")
    time.sleep(0.2)  # the thread has seen the record, and waits again
    assert written == ["before"]
    writer.resume()
    assert ended.wait(30)
    assert writer.close()
    assert (written, problems) == (["before", "during"], [])
