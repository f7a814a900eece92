"""Power cuts: kill -9 of daemon and chat, and anything that was not synced is lost or torn."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from tests.harness.power_cut.disk import Disk, Faults

from .test_daemon_kills import Acknowledged, DaemonClients, PullSequence, check
from .test_store_kills import Home

if TYPE_CHECKING:
    from .conftest import FaultDaemon, MakeDaemon, ModelServer

PAGE = 4096
NOT_CHATS = ("models", "responses", "files", "batches", "runtime")


class Day:
    """One home through many power cuts, full disks, failing syncs and damaged files."""

    def __init__(
        self, daemon: FaultDaemon, pulls: PullSequence, recorder: Path, chance: random.Random
    ) -> None:
        self.known, self.pulls, self.happened = Acknowledged(), pulls, Counter[str]()
        self.stores = Home(daemon.home.resolve(), migrates=False)
        self._daemon, self._recorder, self._chance = daemon, recorder, chance
        self._folder = daemon.home.parent
        self._faults = [Faults(self._folder / f"faults{n}") for n in range(2)]
        self._is_damaged = False
        daemon.kill()
        self._begin()

    def _begin(self) -> None:
        self._disk = Disk(self._daemon.home, self._folder / "record")
        self._daemon.environ |= self._disk.environ(self._recorder, self._faults[0])
        self._daemon.restart()

    def live(self, *, early: bool, has_faults: bool) -> None:
        """Serve clients and write chats until the power is cut; check what is left."""
        chance = self._chance
        with self.stores.start(self._disk.environ(self._recorder, self._faults[1])) as child:
            self._daemon.companions = [child]
            self.pulls.may_fail = has_faults
            if has_faults:
                self._break()
            clients = DaemonClients(self._daemon, self.known, self.pulls, chance.getrandbits(32))
            least = 1.0 if has_faults else 0.0
            clients.run(chance.uniform(least, least + 1.5), early=early or has_faults)
            for faults in self._faults:
                self.happened["failed calls"] += faults.hits
                faults.stop()
            trouble = self.stores.acknowledge(child)
            assert has_faults or self._is_damaged or not trouble, trouble
        self._disk.replay(killed=2)
        self.happened[self._disk.cut_power(chance)] += 1

    def _break(self) -> None:
        """Let calls fail for a while, of the daemon as on a full disk, of the chats in any way."""
        self.happened["with failing calls"] += 1
        for faults in self._faults:
            full = faults is self._faults[0] or self._chance.random() < 0.5
            calls = self._chance.choice(("write short", "fsync", "create mkdir", "rename"))
            after, times = self._chance.randint(0, 50), self._chance.choice((1, 5, 50, -1))
            error = errno.ENOSPC if full else errno.EIO
            faults.fail(calls, error, after=after, times=times)

    def damage(self) -> None:
        """Overwrite one page of the chats with zeros."""
        path = self._daemon.home / "chats/history.db"
        if path.exists() and (pages := path.stat().st_size // PAGE) > 1:
            self._is_damaged = True
            self.happened["damaged pages"] += 1
            with path.open("r+b") as file:
                file.seek(PAGE * self._chance.randrange(pages))
                file.write(bytes(PAGE))

    def check(self, *, everything: bool) -> None:
        """Start again; check what was acknowledged, the stores of the chat in a copy."""
        copy = self._folder / "copy"
        shutil.copytree(self._daemon.home, copy, ignore=shutil.ignore_patterns(*NOT_CHATS, "*-shm"))
        home, self.stores.folder = self.stores.folder, copy
        self._is_damaged = self._is_damaged and not _is_sound(copy / "chats/history.db")
        self.stores.check_stores(is_damaged=self._is_damaged)
        if everything and not self._is_damaged:
            self.stores.check_everything()
        shutil.rmtree(copy)
        self.stores.folder = home
        self._begin()
        check(self._daemon, self.known, self._chance)
        self.pulls.check(self._daemon.http)


def _is_sound(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except sqlite3.DatabaseError:
        return False


@pytest.mark.parametrize("cuts", [1, pytest.param(200, marks=pytest.mark.slow)])
def test_power_cuts_lose_nothing_acknowledged(
    make_daemon: MakeDaemon,
    models: ModelServer,
    recorder: Path,
    tmp_path: Path,
    cuts: int,
    tries: Callable[[int], None],
) -> None:
    """A quarter of the lives has failing calls as well; after every tenth a page is damaged."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(models.catalog())
    script = {"reply": "An answer.", "step_seconds": 0.001}
    daemon = make_daemon(
        script, home=tmp_path / "home", environ={"INGLE_TEST_CATALOG": str(catalog)}
    )
    pulls = PullSequence(models, daemon.home / "models")
    day = Day(daemon, pulls, recorder, random.Random(seed))
    for number in range(cuts):
        day.live(early=number % 3 == 2, has_faults=number % 4 == 1)
        if number % 10 == 5:
            day.damage()
        day.check(everything=number % 20 == 19 or number == cuts - 1)
        if number % 20 == 19 or number == cuts - 1:
            print(f"{number + 1} cuts, {dict(day.happened)}: {report(day)}", flush=True)
    tries(cuts)


INSTALLING = """
import sys; from pathlib import Path
from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
store, packages = EngineStore(Path(sys.argv[1])), next(iter(all_engine_packages().values()))
new = store.begin(packages)
(new / "library.so").write_bytes(b"whole" * 10_000)
store.commit(packages, new)
"""


def test_installed_engine_is_whole_after_a_power_cut(recorder: Path, tmp_path: Path) -> None:
    """Its name may be lost, but not what it names."""
    home = tmp_path.resolve() / "engines"
    home.mkdir()
    disk = Disk(home, tmp_path / "record")
    subprocess.run(
        [sys.executable, "-P", "-c", INSTALLING, home],
        env={**os.environ, **disk.environ(recorder)},
        check=True,
    )
    disk.replay(killed=0)
    found = 0
    for seed in range(60):
        deepcopy(disk).cut_power(random.Random(seed), "any part")
        if path := EngineStore(home).find(next(iter(all_engine_packages()))):
            assert (path / "library.so").read_bytes() == b"whole" * 10_000
            found += 1
    assert found


def report(day: Day) -> str:
    known = day.known
    return (
        f"{len(known.responses)} responses, {len(known.files)} files and {len(known.deleted)} "
        f"deleted ones, {len(known.batches) + len(known.finished)} batches, {day.pulls.finished} "
        f"models and {day.stores.count} records of chats, keys, marks and the ledger acknowledged; "
        f"{day.stores.named} messages named as lost, nothing else was lost"
    )
