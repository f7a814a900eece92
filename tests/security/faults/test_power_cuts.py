"""Power cuts: kill -9 of daemon and chat, and anything that was not synced is lost or torn."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.power_cut.disk import Disk

from .test_daemon_kills import (
    Acknowledged,
    DaemonClients,
    PullSequence,
    check,
)
from .test_store_kills import Home

if TYPE_CHECKING:
    from .conftest import MakeDaemon, ModelServer


@pytest.mark.parametrize(
    "cuts", [3, pytest.param(40, marks=pytest.mark.slow), pytest.param(200, marks=pytest.mark.slow)]
)
def test_power_cuts_lose_nothing_acknowledged(
    make_daemon: MakeDaemon, models: ModelServer, recorder: Path, tmp_path: Path, cuts: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng, known, kinds = random.Random(seed), Acknowledged(), Counter[str]()
    home, catalog = tmp_path.resolve() / "home", tmp_path / "catalog.toml"
    home.mkdir()
    catalog.write_text(models.catalog())
    stores, pulls = Home(home, migrates=False), PullSequence(models, home / "models")
    daemon = make_daemon(
        {"reply": "An answer.", "step_seconds": 0.001},
        home=home,
        environ={"INGLE_TEST_CATALOG": str(catalog)},
    )
    daemon.kill()
    disk = Disk(home, tmp_path / "record")
    daemon.environ |= disk.environ(recorder)
    daemon.restart()
    for number in range(cuts):
        with stores.start(disk.environ(recorder)) as child:
            daemon.companions = [child]
            clients = DaemonClients(daemon, known, pulls, rng.getrandbits(32))
            clients.run(rng.uniform(0.0, 1.5), early=number % 3 == 2)
            assert not stores.acknowledge(child)
        disk.replay(killed=2)
        kinds[disk.cut_power(rng)] += 1
        shutil.copytree(home, tmp_path / "copy", symlinks=True, ignore=_sockets)
        stores.folder = tmp_path / "copy"
        stores.check_stores()
        if number % 20 == 19 or number == cuts - 1:
            stores.check_everything()
        shutil.rmtree(tmp_path / "copy")
        stores.folder = home
        disk = Disk(home, tmp_path / "record")
        daemon.restart()
        check(daemon, known, rng)
        pulls.check(daemon.http)
    print(dict(kinds), len(known.responses), len(known.files), stores.count)


def _sockets(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith((".sock", "-shm"))]
