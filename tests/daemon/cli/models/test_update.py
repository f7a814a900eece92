"""`ingle update` prints what the daemon found out about each model, updates and rolls back."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.main import main
from ingle.models.catalog import Catalog, CatalogEntry, URLLocation

from ...conftest import DaemonFactory
from ..conftest import installed_model_entry
from .test_cp_and_create import run

Capture = pytest.CaptureFixture[str]


@contextmanager
def serve_folder(folder: Path) -> Generator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        serving.join()


def catalog_with(file: Path, address: str) -> Catalog:
    """A catalog in which `echo:1` is another file."""
    content = file.read_bytes()
    entry = CatalogEntry(
        name="echo",
        tag="1",
        description="A test's model.",
        licence="MIT",
        parameters=1,
        quantization="F32",
        context=64,
        chat=True,
        file=file.name,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        sources=[URLLocation(address)],
    )
    return Catalog([entry], "echo")


CHANGED = {
    "name": "smollm2:135m",
    "state": "changed",
    "size": 145_000_000,
    "new_size": 271_000_000,
    "download": 271_000_000,
}


def test_update_names_the_changed_models(daemon: Any, capsys: Capture) -> None:
    daemon.update = CHANGED
    assert main(["update"]) == 0
    assert capsys.readouterr().out == (
        "NAME          UPSTREAM\n"
        "smollm2:135m  CHANGED: 145 MB here, 271 MB there, 271 MB to download\n\n"
        "`ingle update --yes smollm2:135m` downloads what changed.\n"
    )
    assert daemon.requests_to("POST", "/ingle/v1/update") == [{"model": "smollm2:135m"}]
    assert daemon.requests_to("POST", "/ingle/v1/update/apply") == []
    daemon.update = {"name": "smollm2:135m", "state": "unknown", "reason": "it has no source"}
    assert main(["update", "smollm2", "--yes"]) == 0
    assert "unknown: it has no source" in capsys.readouterr().out
    assert daemon.requests_to("POST", "/ingle/v1/update/apply") == []


@pytest.mark.parametrize("answer", ["y", "n"])
def test_update_asks_on_a_terminal(
    daemon: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture, answer: str
) -> None:
    daemon.update = CHANGED
    daemon.pull = [("done", installed_model_entry())]
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("sys.stdin.readline", lambda: f"{answer}\n")
    assert main(["update", "smollm2"]) == 0
    assert "Update smollm2:135m (271 MB)?" in capsys.readouterr().err
    wanted = [{"model": "smollm2:135m"}] if answer == "y" else []
    assert daemon.requests_to("POST", "/ingle/v1/update/apply") == wanted


def test_rollback_needs_a_name(daemon: Any, capsys: Capture) -> None:
    assert main(["update", "--rollback"]) == 2
    assert "Name a MODEL" in capsys.readouterr().err


async def test_update_replaces_a_running_model_and_rolls_back(
    run_daemon: DaemonFactory,
    ingle_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    make_bert: Callable[[], Path],
) -> None:
    monkeypatch.setenv("INGLE_HOME", str(ingle_home))
    async with run_daemon() as daemon, asyncio.timeout(60):
        store, file = daemon.services.store, make_bert()
        await daemon.services.manager.load("echo:1", LoadOptions())
        old = store.resolve("echo:1")
        with serve_folder(file.parent) as address:
            store.catalog = catalog_with(file, f"{address}/{file.name}")
            assert await run("update", "--yes", "echo:1") == 0
        assert "echo:1 is updated" in capsys.readouterr().err
        new = store.resolve("echo:1")
        assert new.path.read_bytes() == file.read_bytes()
        while daemon.services.manager.loaded():
            await asyncio.sleep(0.01)
        assert await run("show", "echo:1") == 0
        assert f"kept version {'0' * 12}, 4 B" in " ".join(capsys.readouterr().out.split())
        assert await run("update", "--rollback", "echo:1") == 0
        assert "the kept version again (4 B)" in capsys.readouterr().out
        assert store.resolve("echo:1") == old
        assert await run("update", "--discard", "echo:1") == 0
        assert "Discarded the kept version of echo:1, " in capsys.readouterr().out
        assert not new.path.exists()
        assert await run("update", "--rollback", "echo:1") == 1
        assert "No other version" in capsys.readouterr().err


async def test_daemon_answers_without_a_connection_for_a_model_of_its_own(
    run_daemon: DaemonFactory, ingle_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("INGLE_HOME", str(ingle_home))
    async with run_daemon():
        assert await run("update", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["updates"]
    assert (found["name"], found["state"]) == ("echo:1", "unknown")
