"""kill -9 of what writes stores: chats while migrated and written, marks, keys and the ledger."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ingle.daemon.access.api_keys import KeyStore
from ingle.daemon.routing.detectors.finding import Sensitivity
from ingle.daemon.routing.ledger.egress_ledger import Ledger
from ingle.daemon.routing.ledger.ledger_verification import verify
from ingle.daemon.routing.policy.conversation_taint import TaintStore
from ingle.tui.history.database import database
from ingle.tui.history.database.schema import STEPS, migrate
from ingle.tui.history.history_store import open_history

LIVES_OF_A_HOME = 20
ROWS = 20_000
"""What a step to a later version writes: some tens of milliseconds."""

CHILD = """
import functools, itertools, json, os, secrets, sys, threading
from pathlib import Path
from ingle.backends.remote.clearance import Clearance
from ingle.daemon.access.api_keys import KeyStore
from ingle.daemon.routing.detectors.finding import Sensitivity
from ingle.daemon.routing.ledger.egress_ledger import BudgetReservation, Ledger
from ingle.daemon.routing.policy.conversation_taint import TaintStore
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.history.database import database, schema
from ingle.tui.history.history_store import open_history

home, version, rows = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def say(*what):
    os.write(1, json.dumps(what).encode() + b"\\n")

def step(number, connection):
    connection.execute(f"CREATE TABLE later_{number}(number INTEGER NOT NULL)")
    for each in range(rows):
        connection.execute(f"INSERT INTO later_{number} VALUES (?)", (each,))
    if number:
        connection.execute(f"DROP TABLE later_{number - 1}")

def chats():
    steps = (*schema.STEPS, *(functools.partial(step, n) for n in range(version)))
    database.migrate = functools.partial(schema.migrate, steps=steps)
    store = open_history(home / "chats", lambda text: say("trouble", text))
    say("opens")
    store.recent()
    say("opened")
    chat = Chat()
    store.add_chat(chat)
    for number in itertools.count():
        prompt = chat.add(Message(role="user", content=f"prompt {number}"))
        store.add_message(chat.id, prompt)
        answer = chat.add(Message(role="assistant", parent=prompt.id))
        store.add_message(chat.id, answer)
        assert store.flush(10)
        say("message", chat.id, prompt.id, prompt.content)
        text = ""
        for piece in range(10):
            text += f"{number}.{piece} "
            store.append(answer.id, f"{number}.{piece} ")
            assert store.flush(10)
            say("message", chat.id, answer.id, text)
        store.end_message(answer.id, "answered", MessageFacts())

def marks():
    store = TaintStore(home / "state/routing/taint.db")
    while True:
        trace = secrets.token_bytes(32)
        store.mark([trace], Sensitivity.NEVER)
        say("mark", trace.hex())

def keys():
    store, before = KeyStore(home / "state/keys.json"), None
    while True:
        record, _ = store.create()
        say("key", record.id)
        if before:
            store.revoke(before)
            say("revoked", before)
        before = record.id

def ledger():
    ledger = Ledger(home / "ledger", home / "state/ledger-head.json")
    clearance = Clearance(digest="0", provider="p", model="m", verdict="cloud", rule="r")
    while True:
        intent = ledger.intend(clearance, BudgetReservation(tokens=1, cost=None, currency="USD"))
        say("intent", intent.seq)

for way in (chats, marks, keys, ledger):
    threading.Thread(target=way).start()
say("begins")
"""


class Home:
    """The stores of one home over some lives of a program that writes all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        """Steps beyond those of today; each life but the first finds an older version's chats."""
        self.messages: dict[str, tuple[str, str]] = {}
        self.marks: list[str] = []
        self.keys: set[str] = set()
        self.intents: set[int] = set()
        self.count = 0
        self.migrations_cut = 0

    def live(self, seconds: float, *, long: bool) -> None:
        """Kill the program so long after it began, or kept a message, and look at everything."""
        command = [sys.executable, "-P", "-c", CHILD, self.folder, str(self.version), str(ROWS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            lines = [child.stdout.readline()]
            while long and not lines[-1].startswith(b'["message"'):
                assert lines[-1]
                lines.append(child.stdout.readline())
            time.sleep(seconds)
            child.kill()
            lines += child.stdout.readlines()
            assert child.stderr.read() == b""  # no traceback, whatever the life before left
        said: dict[str, list[Any]] = {}
        for line in lines:
            kind, *what = json.loads(line)  # a line is written in one piece
            said.setdefault(kind, []).append(what)
        self.count += sum(map(len, said.values()))
        assert "trouble" not in said
        self._check_chats(said)
        self._check_marks([one for (one,) in said.get("mark", [])])
        self._check_keys(
            [one for (one,) in said.get("key", [])], [one for (one,) in said.get("revoked", [])]
        )
        self.intents |= {one for (one,) in said.get("intent", [])}

    def _check_chats(self, said: dict[str, list[Any]]) -> None:
        version, wanted = self._version_of_chats(), len(STEPS) + self.version
        assert version in (wanted, wanted - 1 if self.version else 0)
        assert version == wanted or "opened" not in said
        self.migrations_cut += "opens" in said and "opened" not in said
        for chat, message, text in said.get("message", []):
            self.messages[message] = (chat, text)
        if version:
            self._read_chats(version)
        if version == wanted:
            self.version += 1

    def _version_of_chats(self) -> int:
        """Of tables that are whole: those of the last step, and none of another."""
        path = self.folder / "chats/history.db"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(path)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
            last = version - len(STEPS) - 1
            later = {name for name in names if name.startswith("later_")}
            assert later == ({f"later_{last}"} if last >= 0 else set())
            assert ("messages" in names) == (version > 0)
            for name in later:
                assert connection.execute(f"SELECT count(*) FROM {name}").fetchone() == (ROWS,)
        return version

    def _read_chats(self, version: int) -> None:
        """What the chat itself reads of it."""
        before = database.migrate
        database.migrate = partial(migrate, steps=[*STEPS] + [_none] * (version - len(STEPS)))
        store = open_history(self.folder / "chats", pytest.fail)
        try:
            for name in {chat for chat, _ in self.messages.values()}:
                chat = store.load(name)
                assert chat is not None
                for message, (where, text) in self.messages.items():
                    assert where != name or chat.messages[message].content.startswith(text)
        finally:
            store.close()
            database.migrate = before

    def _check_marks(self, marks: list[str]) -> None:
        self.marks += marks
        store = TaintStore(self.folder / "state/routing/taint.db")
        try:
            for mark in self.marks[-50:]:
                assert store.strictest([bytes.fromhex(mark)]) is Sensitivity.NEVER
        finally:
            store.close()

    def _check_keys(self, made: list[str], revoked: list[str]) -> None:
        there = {record.id for record in KeyStore(self.folder / "state/keys.json").list()}
        self.keys |= set(made[-1:])  # no life takes its last one back
        assert there.isdisjoint(revoked)
        assert self.keys <= there

    def check_whole(self) -> None:
        """All of it, from beginning to end."""
        ledger = Ledger(self.folder / "ledger", self.folder / "state/ledger-head.json")
        assert self.intents <= {entry.seq for entry in ledger.entries()}
        assert verify(ledger).problems == []
        databases = list(self.folder.rglob("*.db"))
        assert {path.name for path in databases} == {"history.db", "taint.db"}
        for path in databases:
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
                if path.name == "history.db":
                    connection.execute("INSERT INTO words(words) VALUES ('integrity-check')")
        self._check_marks([])


def _none(connection: sqlite3.Connection) -> None:
    """Stands for a step that was made."""


@pytest.mark.parametrize("kills", [5, pytest.param(1000, marks=pytest.mark.slow)])
def test_what_a_store_acknowledged_is_there(tmp_path: Path, kills: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    homes: list[Home] = []
    for number in range(kills):
        if number % LIVES_OF_A_HOME == 0:
            homes.append(Home(tmp_path / f"h{len(homes)}"))
        last = number + 1 in (kills, len(homes) * LIVES_OF_A_HOME)
        homes[-1].live(chance.uniform(0.0, 0.4), long=last)
        if last:
            homes[-1].check_whole()
    cut, count = sum(h.migrations_cut for h in homes), sum(h.count for h in homes)
    print(f"{kills} kills, {cut} in a migration of chats; {count} things said, and none lost")
    assert kills < 100 or cut > kills / 20
