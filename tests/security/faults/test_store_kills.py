"""kill -9 of processes that write stores: chats and their migration, taint marks, keys, ledger."""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
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
LOSS = re.compile("could not be read|are lost")
"""In the report of a recovery."""
ROWS = 20_000
"""Rows written by a migration step, which takes some tens of milliseconds."""

CHILD = """
import functools, itertools, json, os, secrets, sys, threading, time
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

def report(*what):
    os.write(1, json.dumps(what).encode() + b"\\n")

def step(number, connection):
    connection.execute(f"CREATE TABLE later_{number}(number INTEGER NOT NULL)")
    for each in range(rows):
        connection.execute(f"INSERT INTO later_{number} VALUES (?)", (each,))
    if number:
        connection.execute(f"DROP TABLE later_{number - 1}")

def failed(error):
    report("failed", type(error).__name__)
    time.sleep(0.02)

def keep(store):
    while not store.flush(10):
        failed(OSError())
        store._writer.wake()

def repeat(way):
    while True:
        try:
            way()
        except Exception as error:
            failed(error)

def chats():
    steps = (*schema.STEPS, *(functools.partial(step, n) for n in range(version)))
    database.migrate = functools.partial(schema.migrate, steps=steps)
    store = open_history(home / "chats", lambda text: report("trouble", text))
    report("opens")
    while True:
        try:
            store.recent()
            break
        except Exception as error:
            failed(error)
    report("opened")
    chat = Chat()
    store.add_chat(chat)
    for number in itertools.count():
        prompt = chat.add(Message(role="user", content=f"prompt {number}"))
        store.add_message(chat.id, prompt)
        answer = chat.add(Message(role="assistant", parent=prompt.id))
        store.add_message(chat.id, answer)
        keep(store)
        report("message", chat.id, prompt.id, prompt.content)
        text = ""
        for piece in range(10):
            text += f"{number}.{piece} "
            store.append(answer.id, f"{number}.{piece} ")
            keep(store)
            report("message", chat.id, answer.id, text)
        store.end_message(answer.id, "answered", MessageFacts())

def marks():
    store = TaintStore(home / "state/routing/taint.db")
    while True:
        trace = secrets.token_bytes(32)
        store.mark([trace], Sensitivity.NEVER)
        report("mark", trace.hex())

def keys():
    store, before = KeyStore(home / "state/keys.json"), None
    while True:
        record, _ = store.create()
        report("key", record.id)
        if before:
            store.revoke(before)
            report("revoked", before)
        before = record.id

def ledger():
    ledger = Ledger(home / "ledger", home / "state/ledger-head.json")
    clearance = Clearance(digest="0", provider="p", model="m", verdict="cloud", rule="r")
    while True:
        intent = ledger.intend(clearance, BudgetReservation(tokens=1, cost=None, currency="USD"))
        report("intent", intent.seq)

for way in (chats, marks, keys, ledger):
    threading.Thread(target=repeat, args=(way,)).start()
report("begins")
"""


class Home:
    """The stores of one home over several lives of a program that writes all of them."""

    def __init__(self, folder: Path, *, migrates: bool = True) -> None:
        self.folder = folder
        self.version = 0
        """Additional migration steps; each life but the first finds an older version's chats."""
        self._migrates = migrates
        self.messages: dict[str, tuple[str, str]] = {}
        self.marks: list[str] = []
        self.keys: set[str] = set()
        self.intents: set[int] = set()
        self.count = 0
        self.migrations_cut = 0
        self.named = 0
        """Messages that were reported as lost."""

    def start(self, environ: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start the program, with more of an environment."""
        return subprocess.Popen(
            [sys.executable, "-P", "-c", CHILD, self.folder, str(self.version), str(ROWS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environ or {})},
        )

    def run_and_kill(self, seconds: float, *, after_message: bool) -> None:
        """Kill the program some seconds after it started or stored a message, and check all."""
        with self.start() as child:
            assert child.stdout is not None
            lines = [child.stdout.readline()]
            while after_message and not lines[-1].startswith(b'["message"'):
                assert lines[-1]
                lines.append(child.stdout.readline())
            time.sleep(seconds)
            child.kill()
            assert not self.acknowledge(child, lines)
        self.check_stores()

    def acknowledge(self, child: subprocess.Popen[bytes], lines: Sequence[bytes] = ()) -> list[str]:
        """Read what a killed program reported, after these lines; return what was not well."""
        assert child.stdout is not None
        assert child.stderr is not None
        reports = [*lines, *child.stdout.readlines()]
        # no traceback, in whatever state the stores were left
        assert child.stderr.read() == b""
        acknowledged = self._acknowledged = dict[str, list[Any]]()
        for line in reports:
            kind, *what = json.loads(line)  # lines are written atomically
            acknowledged.setdefault(kind, []).append(what)
        self.count += sum(map(len, acknowledged.values()))
        return [text for kind in ("trouble", "failed") for (text,) in acknowledged.get(kind, [])]

    def check_stores(self, *, is_damaged: bool = False) -> None:
        """Check what was acknowledged last, and of earlier lives what is read with it.

        If the chats' file was damaged, what is lost must be reported, and is left out later.
        """
        acknowledged = self._acknowledged
        self._check_chats(acknowledged, is_damaged=is_damaged)
        self._check_marks([one for (one,) in acknowledged.get("mark", [])])
        self._check_keys(
            [one for (one,) in acknowledged.get("key", [])],
            [one for (one,) in acknowledged.get("revoked", [])],
        )
        self.intents |= {one for (one,) in acknowledged.get("intent", [])}

    def _check_chats(self, acknowledged: dict[str, list[Any]], *, is_damaged: bool) -> None:
        expected = len(STEPS) + self.version
        version = expected if is_damaged else self._version_of_chats()
        assert version in (expected, expected - 1 if self.version else 0)
        assert version == expected or "opened" not in acknowledged
        self.migrations_cut += "opens" in acknowledged and "opened" not in acknowledged
        for chat, message, text in acknowledged.get("message", []):
            self.messages[message] = (chat, text)
        if version:
            self._read_chats(version, is_damaged=is_damaged)
        if version == expected and self._migrates:
            self.version += 1

    def _version_of_chats(self) -> int:
        """The version, after checking that the tables are those of its last step only."""
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

    def _read_chats(self, version: int, *, is_damaged: bool) -> None:
        """Check the messages by reading them through the history store."""
        before = database.migrate
        database.migrate = partial(migrate, steps=[*STEPS] + [_no_step] * (version - len(STEPS)))
        reported: list[str] = []
        lost: list[str] = []
        store = open_history(self.folder / "chats", reported.append)
        try:
            chats = {name: store.load(name) for name in {c for c, _ in self.messages.values()}}
            for message, (name, text) in self.messages.items():
                chat = chats[name]
                found = None if chat is None else chat.messages.get(message)
                if found is None or not found.content.startswith(text):
                    lost.append(message)
        finally:
            store.close()
            database.migrate = before
        assert is_damaged or not reported
        assert not lost or any(LOSS.search(text) for text in reported), lost
        self.named += len(lost)
        for message in lost:
            del self.messages[message]

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
        self.keys |= set(made[-1:])  # the last key of a life is not revoked
        assert there.isdisjoint(revoked)
        assert self.keys <= there

    def check_everything(self) -> None:
        """Check the ledger, the databases and all marks."""
        ledger = Ledger(self.folder / "ledger", self.folder / "state/ledger-head.json")
        assert self.intents <= {entry.seq for entry in ledger.entries()}
        assert verify(ledger).problems == []
        databases = [path for path in self.folder.rglob("*.db") if ".damaged-" not in path.name]
        assert {path.name for path in databases} == {"history.db", "taint.db"}
        for path in databases:
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
                if path.name == "history.db":
                    connection.execute("INSERT INTO words(words) VALUES ('integrity-check')")
        self._check_marks([])


def _no_step(connection: sqlite3.Connection) -> None:
    """Stands for a completed step."""


@pytest.mark.parametrize("kills", [3, pytest.param(1000, marks=pytest.mark.slow)])
def test_kills_lose_no_acknowledged_writes(
    tmp_path: Path, kills: int, tries: Callable[[int], None]
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    homes: list[Home] = []
    for number in range(kills):
        if number % LIVES_OF_A_HOME == 0:
            homes.append(Home(tmp_path / f"h{len(homes)}"))
        last = number + 1 in (kills, len(homes) * LIVES_OF_A_HOME)
        homes[-1].run_and_kill(rng.uniform(0.0, 0.4), after_message=last)
        if last:
            homes[-1].check_everything()
    cut, count = sum(h.migrations_cut for h in homes), sum(h.count for h in homes)
    print(f"{kills} kills, {cut} in a migration of chats; {count} acknowledgements, none lost")
    assert kills < 100 or cut > kills / 20
    tries(kills)
