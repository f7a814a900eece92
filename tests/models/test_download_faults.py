"""Downloads that are killed, shared, or served by hostile servers, with real processes."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import HashMismatch, InvalidModel, ModelError, SourceUnavailable
from ingle.models.store.model_store import ModelStore

if TYPE_CHECKING:
    from .conftest import FileServer, GGUFBuilder, MakeStore, ServeHub

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and unix sockets")

# Pulls once for every line of its input, each time in a child process, which a test may kill.
PULLS = """
import os, sys
import httpx
from pathlib import Path
from ingle.models.catalog import Catalog, CatalogEntry, URLLocation
from ingle.models.store.model_store import ModelStore
root, source, size, digest = sys.argv[1:]
entry = CatalogEntry(
    name="tiny", tag="1b", description="d", licence="MIT", parameters=1, quantization="q",
    context=1, chat=True, file="tiny.gguf", size=int(size), sha256=digest,
    sources=[URLLocation(source)],
)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        ModelStore(Path(root), Catalog([entry], "tiny")).pull("tiny")
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_wait(seconds: float, cancelled: object) -> None:
        return

    monkeypatch.setattr("ingle.models.sources.http_source._wait", no_wait)


@pytest.fixture
def content(tiny: GGUFBuilder, new_tensor: Callable[..., Any]) -> bytes:
    """Return a model of four megabytes, sent in about sixty pieces."""
    tiny.tensors.append(new_tensor("output.weight", (1024, 1024)))
    return tiny.build()


@pytest.fixture
def pulls(tmp_path: Path, content: bytes) -> Generator[Callable[[str], subprocess.Popen[str]]]:
    script = tmp_path / "pulls.py"
    script.write_text(PULLS)
    started: list[subprocess.Popen[str]] = []

    def start(url: str) -> subprocess.Popen[str]:
        facts = [str(tmp_path / "store"), url, str(len(content))]
        command = [sys.executable, "-P", str(script), *facts, hashlib.sha256(content).hexdigest()]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def pull_once(process: subprocess.Popen[str]) -> int:
    """Start one more pull; return its process."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def status_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


@pytest.mark.slow
def test_download_killed_at_twenty_random_points_completes(
    server: FileServer,
    content: bytes,
    pulls: Callable[[str], subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    url = server.serve("/t", content, pause=0.004)
    process, random_ = pulls(url), random.Random(8)
    partial = tmp_path / "store/tiny/1b/tiny.gguf.partial"
    target = partial.with_suffix("")
    points = sorted(random_.randrange(len(content)) for _ in range(20))
    killed = 0
    for point in points:
        child = pull_once(process)
        while not target.exists() and (not partial.exists() or partial.stat().st_size < point):
            time.sleep(0.0005)
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(status_of(process))
    pull_once(process)
    assert status_of(process) == 0
    assert killed >= 19  # the last point may be after the end of the download
    assert target.read_bytes() == content
    assert {path.name for path in target.parent.iterdir()} == {"tiny.gguf", "manifest.json"}
    resumed = [request.range for request in server.log if request.range is not None]
    starts = [int(text.removeprefix("bytes=").rstrip("-")) for text in resumed]
    assert starts == sorted(starts)  # no received byte was discarded
    assert starts[-1] >= points[-2]


def test_two_processes_share_one_download(
    server: FileServer, content: bytes, pulls: Callable[[str], subprocess.Popen[str]]
) -> None:
    url = server.serve("/t", content, pause=0.002)
    processes = [pulls(url), pulls(url)]
    for process in processes:
        pull_once(process)
    assert [status_of(process) for process in processes] == [0, 0]
    assert [request.range for request in server.log] == [None]


Fault = Callable[["FileServer", bytes], str]
FAULTS: dict[str, tuple[Fault, type[ModelError], str]] = {
    "a too long file": (
        lambda server, content: server.serve("/t", content + b"more"),
        SourceUnavailable,
        "another file, of",
    ),
    "a too short file": (
        lambda server, content: server.serve("/t", content[:-1]),
        SourceUnavailable,
        "another file, of",
    ),
    "less than announced": (
        lambda server, content: server.serve("/t", content, cuts=[1000, 0, 0, 0, 0, 0, 0]),
        SourceUnavailable,
        "could not be fetched",
    ),
    "another range": (
        lambda server, content: server.serve("/t", content, cuts=[1000] * 9, shifts_range=5),
        SourceUnavailable,
        "could not be fetched",
    ),
    "ranges of a file of another size": (
        lambda server, content: server.serve("/t", content, cuts=[1000], lies_about_total=9),
        SourceUnavailable,
        "another file, of",
    ),
    "other bytes": (
        lambda server, content: server.serve("/t", content[:-1] + b"?"),
        HashMismatch,
        "not what it should be: its SHA-256",
    ),
    "other bytes after the interruption": (
        lambda server, content: server.serve("/t", content[:9000] + content[8999:-1]),
        HashMismatch,
        "not what it should be: its SHA-256",
    ),
    "a web page": (
        lambda server, content: server.serve(
            "/t", b"<html>Log in", headers={"Content-Type": "text/html"}
        ),
        SourceUnavailable,
        "web page instead of the file",
    ),
    "an error": (
        lambda server, content: server.serve("/t", b"", status=404),
        SourceUnavailable,
        "404",
    ),
    "a compressed file": (
        lambda server, content: server.serve("/t", content, headers={"Content-Encoding": "br"}),
        SourceUnavailable,
        "encoding not asked for",
    ),
    "a redirect loop": (
        lambda server, content: server.serve("/t", b"", status=302, headers={"Location": "/t"}),
        SourceUnavailable,
        "redirects without end",
    ),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_hostile_server_response_is_rejected(
    server: FileServer, make_store: MakeStore, content: bytes, fault: str
) -> None:
    serve, error, words = FAULTS[fault]
    store = make_store(content, serve(server, content))
    with pytest.raises(error) as caught:
        store.pull("tiny")
    assert words in caught.value.message
    assert "tiny:1b" in caught.value.message
    assert caught.value.hint
    assert store.list() == []
    server.serve("/t", content)
    assert store.pull("tiny").path.read_bytes() == content


def test_hub_file_that_is_not_a_model_is_rejected(serve_hub: ServeHub, tmp_path: Path) -> None:
    """Its digest is right, but the file is of another kind."""
    serve_hub("own/repo", {"m-Q8_0.gguf": b"PK\x03\x04 a zip archive" * 100})
    store = ModelStore(tmp_path / "store", Catalog.load())
    with pytest.raises(InvalidModel, match="is not a GGUF file"):
        store.pull("hf.co/own/repo")
    assert store.list() == []


def ingle(home: Path, *arguments: str, hub: str) -> subprocess.Popen[str]:
    settings = {"INGLE_HOME": str(home), "INGLE_PORT": "-1", "HF_ENDPOINT": hub}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "ingle.daemon.main", *arguments],
        env={**os.environ, **settings},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def daemon_pid(home: Path, hub: str) -> int:
    with ingle(home, "ps", "--json", hub=hub) as process:
        return json.loads(process.communicate(timeout=30)[0])["pid"]


@pytest.fixture
def daemons_home(ingle_home: Path, server: FileServer) -> Generator[Path]:
    """Return a home whose daemon ends with the test, whatever happens."""
    yield ingle_home
    with ingle(ingle_home, "stop", hub=server.address) as stopping:
        stopping.communicate(timeout=30)


@pytest.mark.slow
def test_clients_of_one_daemon_share_a_download_that_survives_its_death(
    server: FileServer, serve_hub: ServeHub, content: bytes, daemons_home: Path
) -> None:
    serve_hub("own/repo", {"m-Q8_0.gguf": content})
    address = f"/own/repo/resolve/{'c' * 40}/m-Q8_0.gguf"
    server.serve(address, content, hold_after=1_000_000)
    hub, partial = server.address, daemons_home / "models/hf.co/own/repo/Q8_0/m-Q8_0.gguf.partial"
    with ingle(daemons_home, "pull", "hf.co/own/repo", hub=hub) as first:
        while not partial.exists() or partial.stat().st_size < 900_000:
            assert first.poll() is None
            time.sleep(0.01)
        os.kill(daemon_pid(daemons_home, hub), signal.SIGKILL)
        assert first.wait(timeout=30) == 1
    kept = partial.stat().st_size
    server.paths[address].release.set()
    server.serve(address, content, pause=0.005)
    server.log.clear()
    names = ("hf.co/own/repo", "hf.co/own/repo", "hf.co/own/repo:Q8_0")
    both = [ingle(daemons_home, "pull", name, hub=hub) for name in names]
    ends = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0, 0], ends
    assert all("hf.co/own/repo:Q8_0 is ready" in output for _, output in ends)
    ranges = [request.range for request in server.log if request.path == address]
    assert ranges == [f"bytes={kept}-"]
    assert partial.with_suffix("").read_bytes() == content


def test_threads_of_one_store_share_a_download(
    server: FileServer, make_store: MakeStore, content: bytes
) -> None:
    store = make_store(content, server.serve("/t", content, pause=0.002))
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(store.pull("tiny").path)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(server.log) == 1
