"""`ingle update` prints what the daemon found out about each model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingle.daemon.main import main

from ...conftest import DaemonFactory
from .test_cp_and_create import run

Capture = pytest.CaptureFixture[str]


def test_update_names_the_changed_models(daemon: Any, capsys: Capture) -> None:
    daemon.update = {"name": "smollm2:135m", "state": "changed", "reason": ""}
    assert main(["update"]) == 0
    assert capsys.readouterr().out == (
        "NAME          UPSTREAM\nsmollm2:135m  CHANGED\n\n"
        "`ingle rm smollm2:135m`, then `ingle pull smollm2:135m`, fetches the new file.\n"
    )
    assert daemon.requests_to("POST", "/ingle/v1/update") == [{"model": "smollm2:135m"}]
    daemon.update = {"name": "smollm2:135m", "state": "unknown", "reason": "it has no source"}
    assert main(["update", "smollm2"]) == 0
    assert "unknown: it has no source" in capsys.readouterr().out


async def test_daemon_answers_without_a_connection_for_a_model_of_its_own(
    run_daemon: DaemonFactory, ingle_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("INGLE_HOME", str(ingle_home))
    async with run_daemon():
        assert await run("update", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["updates"]
    assert (found["name"], found["state"]) == ("echo:1", "unknown")
