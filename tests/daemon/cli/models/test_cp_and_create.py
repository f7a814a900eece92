"""`ingle cp` and `ingle create` against a daemon with real model files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ingle.daemon.main import main
from ingle.models.places.local_models import identity

from ...conftest import DaemonFactory

Capture = pytest.CaptureFixture[str]


async def run(*arguments: str) -> int:
    return await asyncio.to_thread(main, list(arguments))


async def test_copy_has_a_second_name_and_the_same_file(
    run_daemon: DaemonFactory, ingle_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("INGLE_HOME", str(ingle_home))
    async with run_daemon() as daemon:
        assert await run("cp", "echo", "mine") == 0
        assert "mine:latest" in capsys.readouterr().out
        original, copy = (daemon.services.resolve(name) for name in ("echo", "mine"))
        assert copy.sha256 == original.sha256
        assert identity(copy.path) == identity(original.path)
        assert await run("cp", "echo", "mine") == 1
        assert "There is a model called mine:latest already." in capsys.readouterr().err
        assert await run("cp", "nothing", "other") == 1
        assert await run("cp", "echo", "a/b") == 1
        assert "cannot be the name of a model" in capsys.readouterr().err


async def test_model_is_created_of_a_modelfile(
    run_daemon: DaemonFactory,
    ingle_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setenv("INGLE_HOME", str(ingle_home))
    file = tmp_path / "Modelfile"
    async with run_daemon() as daemon:
        file.write_text("FROM echo\nPARAMETER temperature 0.3\nSYSTEM Be brief.\n")
        assert await run("create", "helper", "-f", str(file), "--json") == 0
        assert json.loads(capsys.readouterr().out)["name"] == "helper:latest"
        made = daemon.services.resolve("helper")
        assert (made.system, made.sampling["temperature"]) == ("Be brief.", 0.3)
        file.write_text('FROM echo\nTEMPLATE """{{ .Prompt }}"""\n')
        assert await run("create", "other", "-f", str(file)) == 1
        assert "is written in Go's language" in capsys.readouterr().err
        file.write_text('FROM echo\nTEMPLATE """{% for m in messages %}{{ m.content }}"""\n')
        assert await run("create", "other", "-f", str(file)) == 1
        assert "'template' does not work" in capsys.readouterr().err
        assert await run("create", "other", "-f", str(tmp_path / "none")) == 2
