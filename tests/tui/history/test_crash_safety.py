"""Crash safety of the history: SIGKILL while writing, deleting and migrating."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import MakeStore

CHILD = """
import json, sys, time
from pathlib import Path
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.history.history_store import open_history

store = open_history(Path(sys.argv[1]), lambda text: print(text, file=sys.stderr))
chat = Chat(id="chat")
store.add_chat(chat)
parent, number = None, 0
while True:
    prompt = chat.add(Message(role="user", content=f"prompt {number}", parent=parent))
    store.add_message(chat.id, prompt)
    answer = chat.add(Message(role="assistant", parent=prompt.id))
    store.add_message(chat.id, answer)
    store.set_generation(answer.id, f"gen-{number}")
    for piece in range(20):
        store.append(answer.id, f"{number}.{piece} ")
        print(json.dumps([answer.id, f"{number}.{piece} ", time.monotonic()]), flush=True)
        time.sleep(0.005)
    store.end_message(answer.id, "answered", MessageFacts())
    parent, number = answer.id, number + 1
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 100))]
)
def test_messages_older_than_a_second_survive_sigkill(
    folder: Path, make_store: MakeStore, seed: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", CHILD, str(folder)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(random.Random(seed).uniform(1.1, 1.8))
        child.kill()
        killed = time.monotonic()
        lines = [first, *child.stdout.readlines()]
    noted: dict[str, str] = {}
    for line in lines:
        if line.endswith("\n"):
            message, piece, at = json.loads(line)
            if at < killed - 1.0:
                noted[message] = noted.get(message, "") + piece
    assert noted

    store = make_store()
    chat = store.load("chat")
    assert chat is not None
    for message, text in noted.items():
        assert chat.messages[message].content.startswith(text)
    left = store.unfinished()
    assert len(left) <= 1
    leaf = chat.leaf
    assert leaf is not None
    assert [each.message for each in left] == ([leaf.id] if leaf.is_open else [])
    store.close()
    with sqlite3.connect(folder / "history.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        connection.execute("INSERT INTO words(words) VALUES ('integrity-check')")
    connection.close()


DELETING = """
import sys
from pathlib import Path
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message
from ingle.tui.history.history_store import open_history

store = open_history(Path(sys.argv[1]), print)
for name in ("gone", "kept"):
    chat = Chat(id=name)
    store.add_chat(chat)
    for number in range(400):
        store.add_message(name, Message(role="user", content=f"{name}word {number} " * 20))
store.flush(30)
print("written", flush=True)
store.delete_chat("gone")
store.flush(30)
print("deleted", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02, 0.06])
def test_interrupted_deletion_is_atomic(folder: Path, make_store: MakeStore, delay: float) -> None:
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", DELETING, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "written\n"
    time.sleep(delay)
    child.kill()
    child.communicate()

    store = make_store()
    listed = {summary.id: summary.messages for summary in store.recent()}
    assert listed.pop("kept") == 400
    assert listed in ({}, {"gone": 400})
    store.save_draft("x", "something, so that the writer looks for what is left to do")
    store.close()
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    assert (b"goneword" in content) == bool(listed)
    assert b"keptword" in content


MIGRATING = """
import sqlite3, sys
from ingle.tui.history.database.schema import STEPS, migrate

def _grow(connection):
    connection.execute("CREATE TABLE more(number INTEGER NOT NULL)")
    for number in range(20_000):
        connection.execute("INSERT INTO more VALUES (?)", (number,))

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
migrate(connection)
print("made", flush=True)
migrate(connection, (*STEPS, _grow))
print("moved", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    "delay",
    [0.005, 0.02, *(pytest.param(n / 1000, marks=pytest.mark.slow) for n in range(0, 100, 2))],
)
def test_interrupted_migration_is_atomic(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "history.db"
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", MIGRATING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "made\n"
    time.sleep(delay)
    child.kill()
    child.communicate()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'more'").fetchall()
        assert len(tables) == version - 1
        if tables:
            assert connection.execute("SELECT count(*) FROM more").fetchone()[0] == 20_000
