"""A daemon in its own process with a scripted model, and snapshots of its state."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from ingle.models.metadata.manifest import Manifest, write_manifest

SERVE = """
import sys
from functools import partial
from ingle.backends.base.load_spec import LoadSpec
from ingle.daemon.server import daemon_server as server
from ingle.daemon.main import main
from ingle.daemon.load_planning.load_planner import LoadPlan
from ingle.models.fit.memory_needs import MemoryNeeds

class Scripted:
    def __init__(self, config, resolve, **more):
        pass

    def __call__(self, model, options, *, available):
        spec = LoadSpec(engine="scripted", path=str(model.path), context=512, script="{}")
        return LoadPlan(spec, MemoryNeeds(1 << 20))

server.build_services = partial(server.build_services, make_preparer=Scripted)
sys.exit(main(["serve", "--port", "0", *sys.argv[1:]]))
"""

VOLATILE = (".log", ".lock", ".sock")
"""Suffixes of files that change without any request."""


class WatchedDaemon:
    """`ingle serve` on a separate home, whose installed model `echo:1` answers from a script."""

    def __init__(self, home: Path, *arguments: str, **environ: str) -> None:
        self.home = home
        self.log = home.parent / f"{home.name}-daemon.log"
        _install(home)
        clean = {name: text for name, text in os.environ.items() if not name.startswith("INGLE_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", SERVE, *arguments],
                cwd="/",
                env={**clean, "INGLE_HOME": str(home), "INGLE_IMPORT_MODELS": "false", **environ},
                stderr=log,
            )
        self.socket = home / "runtime" / "ingle.sock"
        self._wait_until_up()
        transport = httpx.HTTPTransport(uds=str(self.socket))
        self.owner = httpx.Client(base_url="http://ingle", transport=transport, timeout=120)
        """The owner's own client, over the unix socket."""
        self.port = int(self.status()["address"].rpartition(":")[2])

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
                probe.connect(str(self.socket))
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.01)
        raise AssertionError("the daemon does not listen")

    def status(self) -> dict[str, Any]:
        """The daemon's own status."""
        return self.owner.get("/ingle/v1/status").json()

    def snapshot(self) -> dict[str, object]:
        """The state that no attacker may change: process, models, their work, and all files."""
        status = self.status()
        work = [
            line
            for line in self.owner.get("/metrics").text.splitlines()
            if line.startswith(
                ("ingle_requests", "ingle_prompt", "ingle_generated", "ingle_tokens")
            )
        ]
        files = {
            str(path.relative_to(self.home)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.home.rglob("*")
            if path.is_file() and not path.name.endswith(VOLATILE)
        }
        models = [(m["name"], m["state"], m["pid"], m["running"]) for m in status["models"]]
        return {"pid": status["pid"], "models": models, "work": work, "files": files}

    def stop(self) -> None:
        """Terminate the daemon."""
        self.owner.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=120)
        finally:
            self.process.kill()
            self.process.wait()


def _install(home: Path) -> None:
    """Install a model with a manifest and an empty GGUF file."""
    folder = home / "models/echo/1"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"GGUF")
    manifest = Manifest(
        name="echo:1",
        file="model.gguf",
        size=4,
        sha256="0" * 64,
        licence="Apache-2.0",
        description="A test's model.",
        parameters=1,
        quantization="Q8_0",
        architecture="llama",
        context=4096,
        chat=True,
        source="test",
    )
    write_manifest(folder, manifest)


WatchDaemon = Callable[..., WatchedDaemon]


@pytest.fixture(scope="module")
def watch_daemon_at() -> Iterator[WatchDaemon]:
    """Starts a `WatchedDaemon` on a home, with arguments of `serve` and environment variables."""
    started: list[WatchedDaemon] = []

    def start(home: Path, *arguments: str, **environ: str) -> WatchedDaemon:
        started.append(WatchedDaemon(home, *arguments, **environ))
        return started[-1]

    yield start
    for daemon in started:
        daemon.stop()


@pytest.fixture
def watch_daemon(ingle_home: Path, watch_daemon_at: WatchDaemon) -> WatchDaemon:
    """Starts a `WatchedDaemon` on the test's own home."""
    return partial(watch_daemon_at, ingle_home)
