"""Which program owns an answer that is still being written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from .conftest import MakeStore, NewSavedChat, SavedChat

OWN, PARENT = os.getpid(), os.getppid()
UNUSED = 2**22 + 1
"""Beyond the process ids of Linux."""


def began(pid: int) -> float:
    return psutil.Process(pid).create_time()


@pytest.fixture
def half_answered(make_store: MakeStore, new_saved_chat: NewSavedChat) -> SavedChat:
    """A chat with an open answer that this program has begun."""
    saved_chat = new_saved_chat(make_store())
    saved_chat.add_prompt("go on")
    answer = saved_chat.answer("half", end=False)
    saved_chat.store.set_generation(answer.id, "gen-3")
    assert saved_chat.store.flush()
    return saved_chat


def give_to(raw: sqlite3.Connection, pid: int, started: float) -> None:
    """Have a session of this process own the answer."""
    row = raw.execute("INSERT INTO sessions(pid, started) VALUES (?, ?)", (pid, started)).lastrowid
    raw.execute(
        "INSERT INTO generations(message, generation, session)"
        " SELECT max(row), 'gen-3', ? FROM messages",
        (row,),
    )


@contextmanager
def zombie() -> Generator[int]:
    """The process id of a program that has ended, and that its parent has not waited for."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        yield child.pid


@pytest.mark.parametrize(
    ("pid", "after", "claimed"),
    [
        (OWN, 1, True),
        (PARENT, 1, False),
        (PARENT, -0.5, False),
        (PARENT, -1.5, True),
        (UNUSED, 0, True),
    ],
    ids=["another window", "living", "just begun", "reused process id", "ended"],
)
def test_answer_is_claimed_unless_another_program_follows_it(
    half_answered: SavedChat,
    raw: sqlite3.Connection,
    make_store: MakeStore,
    pid: int,
    after: float,
    claimed: bool,
) -> None:
    """`after` is when the session was recorded, in seconds after the program began."""
    answer = half_answered.chat.path[-1].id
    give_to(raw, pid, (began(pid) if pid != UNUSED else 5) + after)
    owned = raw.execute("SELECT count(*) FROM generations").fetchone()
    other = make_store()
    assert other.claim(answer) is claimed
    assert other.claim(answer) is claimed, "the second time nothing changes"
    after_it = raw.execute("SELECT count(*), max(row) FROM generations").fetchone()
    assert after_it[0] == owned[0] + claimed
    kept = "SELECT generation, session FROM generations WHERE row = ?"
    generation, session = raw.execute(kept, (after_it[1],)).fetchone()
    assert generation == "gen-3"
    owner = raw.execute("SELECT pid FROM sessions WHERE row = ?", (session,)).fetchone()[0]
    assert owner == (OWN if claimed else pid)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no zombies")
def test_answer_of_a_zombie_is_claimed(
    half_answered: SavedChat, raw: sqlite3.Connection, make_store: MakeStore
) -> None:
    with zombie() as pid:
        give_to(raw, pid, began(pid))
        assert make_store().claim(half_answered.chat.path[-1].id)


def test_only_open_answers_with_an_owner_can_be_claimed(
    half_answered: SavedChat, raw: sqlite3.Connection, make_store: MakeStore
) -> None:
    store, answer = half_answered.store, half_answered.chat.path[-1].id
    assert store.claim(answer), "it is this program's"
    raw.execute("INSERT INTO generations(message, session) SELECT max(row), 99 FROM messages")
    assert make_store().claim(answer), "its session is lost"
    store.end_message(answer, "answered", half_answered.chat.path[-1].facts)
    assert not store.claim(answer)
    assert not store.claim("missing")
