"""Fuzz tests of the HTTP API with schemathesis, from the daemon's own OpenAPI document."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

SERVE = """
import os, sys
from functools import partial
from pathlib import Path
from ingle.backends.base.load_spec import LoadSpec
from ingle.daemon.server import daemon_server as server
from ingle.daemon.main import main
from ingle.daemon.load_planning.load_planner import LoadPlan
from ingle.models.fit.memory_needs import MemoryNeeds

class Scripted:
    def __init__(self, config, resolve, **more):
        pass

    def __call__(self, model, options, *, available):
        spec = LoadSpec(
            engine="scripted", path=str(model.path), context=4096, kv_capacity=32768,
            batch=4096, script='{"reply": "Hello."}',
        )
        return LoadPlan(spec, MemoryNeeds(1 << 20))

server.build_services = partial(server.build_services, make_preparer=Scripted)
sys.exit(main(["serve", "--port", sys.argv[1]]))
"""

# Endpoints that stop the daemon, never end, or use the network.
EXCLUDED_PATHS = (
    "/ingle/v1/shutdown",
    "/ingle/v1/events",
    "/models/sse",
    "/ingle/v1/pull",
    "/api/pull",
    "/api/v1/models/download",
)
# OpenAPI cannot express which models exist, what each is for, and which fields exclude each other.
EXCLUDED_CHECK = "positive_data_acceptance"


@pytest.fixture
def port(ingle_home: Path) -> Generator[int]:
    """The port of a daemon whose models all follow a script."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
    folder = ingle_home / "models" / "echo" / "1"
    folder.mkdir(parents=True)
    environ = {
        **os.environ,
        "INGLE_HOME": str(ingle_home),
        "INGLE_DEFAULT_MODEL": "echo:1",
        "INGLE_UNKNOWN_MODEL": "echo:1",
    }
    _install(folder)
    process = subprocess.Popen([sys.executable, "-P", "-c", SERVE, str(number)], env=environ)
    try:
        _wait_for(number)
        yield number
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait()


def _install(folder: Path) -> None:
    from ingle.models.metadata.manifest import Manifest, write_manifest

    (folder / "model.gguf").write_bytes(b"GGUF")
    write_manifest(
        folder,
        Manifest(
            name="echo:1",
            file="model.gguf",
            size=4,
            sha256="0" * 64,
            licence="Apache-2.0",
            description="Follows a script.",
            parameters=1,
            quantization="Q8_0",
            architecture="llama",
            context=4096,
            chat=True,
            source="test",
        ),
    )


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise AssertionError("the daemon does not listen")


def fuzz(port: int, cases: int, folder: Path, phases: str) -> None:
    """Run schemathesis with the given number of generated cases per operation."""
    program = Path(sysconfig.get_path("scripts")) / "schemathesis"
    excluded = [argument for path in EXCLUDED_PATHS for argument in ("--exclude-path", path)]
    done = subprocess.run(
        [
            *(str(program), "run", f"http://127.0.0.1:{port}/openapi.json"),
            *("--phases", phases, "--max-examples", str(cases), "--seed", "1"),
            *("--exclude-checks", EXCLUDED_CHECK, "--continue-on-failure", "--no-color"),
            *excluded,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_schemathesis_finds_no_violation(port: int, tmp_path: Path) -> None:
    fuzz(port, 8, tmp_path, "fuzzing")


@pytest.mark.slow
def test_schemathesis_finds_no_violation_in_10000_cases(port: int, tmp_path: Path) -> None:
    fuzz(port, 30, tmp_path, "coverage,fuzzing")
