"""The recovery of damaged chats is killed before each of its calls: nothing more is lost by it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message
from ingle.tui.history.database.backup import back_up
from ingle.tui.history.database.database_encryption import open_file
from ingle.tui.history.database.history_files import BACKUP, PLAIN
from ingle.tui.history.history_store import open_history
from tests.harness.power_cut.disk import KILL, Disk, Faults

PAGE = 4096
OPENING = """
import sys; from pathlib import Path
from ingle.tui.history.history_store import open_history
store = open_history(Path(sys.argv[1]), lambda text: print(text, flush=True))
store.recent()
store.save_draft("new", "the first write checks the whole file")
assert store.flush(20)
store.close()
"""


def damaged_chats(folder: Path, *, has_backup: bool) -> None:
    """Six chats, the last one in the log, and a page of another one zeroed."""
    source = folder.with_name("source")
    store = open_history(source, pytest.fail)
    for number in range(6):
        if number == 5:  # merges the log; what is added now stays in a new one
            assert store.close()
            store = open_history(source, pytest.fail)
        chat = Chat()
        store.add_chat(chat)
        for prompt in range(10):
            text = f"chat {number} prompt {prompt} " * 20
            store.add_message(chat.id, chat.add(Message(role="user", content=text)))
    assert store.flush(20)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*-shm"))
    assert store.close()
    if has_backup:
        with closing(open_file(source / PLAIN, None)) as connection:
            assert back_up(source, None, connection, pytest.fail)
        shutil.copy(source / BACKUP, folder / BACKUP)
    content = bytearray((folder / PLAIN).read_bytes())
    page = content.index(b"chat 3 prompt 5") // PAGE * PAGE
    content[page : page + PAGE] = bytes(PAGE)
    (folder / PLAIN).write_bytes(content)


def messages(folder: Path) -> set[str]:
    """All messages, after a recovery if it is needed."""
    store = open_history(folder, lambda text: None)
    try:
        store.recent()
        store.save_draft("new", "the first write checks the whole file")
        assert store.flush(20)
        chats = [store.load(summary.id) for summary in store.recent()]
        return {message for chat in chats if chat is not None for message in chat.messages}
    finally:
        store.close()


@pytest.mark.parametrize(
    ("calls", "cut", "has_backup"),
    [
        ("rename", "killed", False),
        pytest.param("rename unlink fsync", "killed", True, marks=pytest.mark.slow),
        pytest.param("rename unlink fsync", "nothing more", False, marks=pytest.mark.slow),
        pytest.param("rename unlink fsync", "nothing more", True, marks=pytest.mark.slow),
    ],
)
def test_killed_recovery_is_finished_by_the_next_start(
    recorder: Path,
    tmp_path: Path,
    tries: Callable[[int], None],
    calls: str,
    cut: str,
    has_backup: bool,
) -> None:
    tmp_path = tmp_path.resolve()
    damaged_chats(tmp_path / "damaged", has_backup=has_backup)
    shutil.copytree(tmp_path / "damaged", tmp_path / "whole")
    expected = messages(tmp_path / "whole")
    assert len(expected) >= 50
    faults, number = Faults(tmp_path / "faults"), 0
    while True:
        home = tmp_path / f"h{number}"
        shutil.copytree(tmp_path / "damaged", home)
        disk = Disk(home, tmp_path / "record")
        faults.fail(calls, KILL, after=number)
        done = subprocess.run(
            [sys.executable, "-P", "-c", OPENING, home],
            env={**os.environ, **disk.environ(recorder, faults)},
            capture_output=True,
            check=False,
        )
        faults.stop()
        if done.returncode != -signal.SIGKILL:
            assert done.returncode == 0, done.stderr.decode()
            break
        disk.replay()
        disk.cut_power(random.Random(number), cut)
        assert expected <= messages(home), f"killed before call {number}"
        number += 1
    assert number > 2
    tries(number)
