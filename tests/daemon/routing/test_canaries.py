"""Canaries: no byte of a local request is sent, and the ledger equals the captured packets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemon.conftest import DaemonFactory
from tests.daemon.routing.canaries import canaries
from tests.daemon.routing.conftest import Sink, SinkExits
from tests.daemon.routing.netns_run import SCRIPTED, bodies

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
async def test_200_canaries_stay_local(
    run_daemon: DaemonFactory, egress: SinkExits, sink: Sink
) -> None:
    async with run_daemon(egress=egress) as daemon:
        for number, (_, text) in enumerate(canaries(200)):
            every = bodies(text)
            path, body = every[number % len(every)]
            answer: httpx.Response = await daemon.unix.post(path, json={"model": "auto", **body})
            # Some exceed the context of the scripted model, which only the local model reports.
            assert answer.status_code in (200, 400), answer.text
            assert answer.headers["ingle-route"].startswith("local;"), text
    assert (sink.connections, bytes(sink.received)) == (0, b"")


def in_namespace(home: Path, model: str, count: int, harmless: int) -> dict[str, Any]:
    """Run in a namespace without any other network; skips if that is not possible."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("network namespaces are Linux's, and made by unshare")
    namespace = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make a network namespace")
    module = "tests.daemon.routing.netns_run"
    done = subprocess.run(
        [*namespace, sys.executable, "-m", module, str(home), model, str(count), str(harmless)],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)


def check(result: dict[str, Any], count: int) -> None:
    """No packets for local requests; equal bytes in ledger, provider and capture for the others."""
    assert result["local"] == {"ways": {"local": count}, "connections": 0, "packets": 0, "bytes": 0}
    assert result["others"] == {}
    mixed = result["mixed"]
    assert mixed["ways"]["cloud"] == mixed["connections"] == mixed["requests"] > 0
    assert mixed["leaked"] == []
    assert mixed["ledger"] == mixed["sink"] == mixed["wire"] > 0
    assert mixed["same"]
    assert mixed["verified"]["ok"]


@pytest.mark.slow
def test_10000_canaries_stay_local(tmp_path: Path) -> None:
    check(in_namespace(tmp_path / "h", SCRIPTED, 10_000, 500), 10_000)


@pytest.mark.slow
def test_canaries_stay_local_with_a_real_model(tmp_path: Path, smollm2_path: Path) -> None:
    check(in_namespace(tmp_path / "h", str(smollm2_path), 100, 20), 100)
