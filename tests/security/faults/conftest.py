"""A daemon in its own process with scripted models, to be killed, starved and stopped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from ingle.models.metadata.manifest import Manifest, write_manifest
from tests.harness.power_cut.disk import compile_recorder

if TYPE_CHECKING:
    from ...conftest import WriteSmallLlama

PIECE = 1 << 16
"""Bytes that the model server sends at a time."""

SERVE = """
import os, sys
from functools import partial
from ingle.backends.base.load_spec import LoadSpec
from ingle.daemon.server import daemon_server as server
from ingle.daemon.main import main
from ingle.daemon.load_planning.load_planner import LoadPlan
from ingle.models.catalog import Catalog
from ingle.models.fit.memory_needs import MemoryNeeds

script = os.environ["INGLE_TEST_SCRIPT"]

class Scripted:
    def __init__(self, config, resolve, **more):
        pass

    def __call__(self, model, options, *, available):
        spec = LoadSpec(
            engine="scripted", path=str(model.path), context=512, slots=32, script=script,
            kv_capacity=32768,
        )
        return LoadPlan(spec, MemoryNeeds(1 << 20))

clock = os.environ.get("INGLE_TEST_CLOCK")
if clock:
    import time
    right = time.time
    time.time = lambda: right() + (float(open(clock).read()) if os.path.exists(clock) else 0)

catalog = os.environ.get("INGLE_TEST_CATALOG")
if catalog:
    parsed = Catalog.parse(open(catalog, "rb").read())
    Catalog.load = lambda: parsed

if script:
    server.build_services = partial(server.build_services, make_preparer=Scripted)
sys.exit(main(["serve", "--port", os.environ["INGLE_TEST_PORT"]]))
"""


class FaultDaemon:
    """`ingle serve` on a home; with `script` None it loads real files, named by their paths."""

    def __init__(
        self,
        home: Path,
        script: dict[str, Any] | None = None,
        *,
        failpoints: str = "",
        port: int = -1,
        environ: dict[str, str] | None = None,
        preexec: Callable[[], None] | None = None,
    ) -> None:
        self.home = home
        self.socket = home / "runtime" / "ingle.sock"
        self.log = home.parent / f"{home.name}.log"
        _install(home)
        self.environ = {
            **os.environ,
            "INGLE_HOME": str(home),
            "INGLE_TEST_SCRIPT": "" if script is None else json.dumps(script),
            "INGLE_TEST_PORT": str(port),
            **({"INGLE_TEST_FAILPOINTS": failpoints} if failpoints else {}),
            **(environ or {}),
        }
        self._preexec = preexec
        self.companions: list[subprocess.Popen[bytes]] = []
        """Programs that are killed with it."""
        self.process = self._spawn()
        self.wait_until_up()
        self.http = self._connect()
        """A client of the unix socket."""

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-c", SERVE],
                cwd="/",
                env=self.environ,
                stderr=log,
                preexec_fn=self._preexec,
            )

    def wait_until_up(self) -> float:
        """Wait for the first answer and return the seconds; fails after two minutes."""
        began = time.monotonic()
        with self._connect() as client:
            while time.monotonic() < began + 120:
                # A connection alone is not enough: for a moment, a child of a killed daemon may
                # hold its socket.
                with suppress(httpx.TransportError):
                    if client.get("/health", timeout=60).status_code == 200:
                        return time.monotonic() - began
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.005)
        raise AssertionError("the daemon does not answer")

    def kill(self) -> None:
        """kill -9."""
        for process in (self.process, *self.companions):
            process.kill()
        for process in (self.process, *self.companions):
            process.wait()

    def restart(self) -> float:
        """Start it again; returns the seconds until it answered."""
        self.http.close()
        self.process = self._spawn()
        seconds = self.wait_until_up()
        self.http = self._connect()
        return seconds

    def start_and_kill(self, seconds: float) -> bool:
        """Start it, kill it after some seconds; whether it had created its socket by then."""
        self.http.close()
        before = self.socket.stat()
        self.process = self._spawn()
        time.sleep(seconds)
        self.kill()
        return not self.socket.exists() or self.socket.stat() != before

    def check_unharmed(self) -> None:
        """It answers, and has reaped the processes that ended."""
        self.process.send_signal(signal.SIGCONT)
        with self._connect() as client:
            assert client.get("/health").status_code == 200
        self.until(lambda: not self.zombies())

    def stop(self) -> int:
        """Terminate it; returns its exit status."""
        self.http.close()
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            return self.process.wait(timeout=120)
        finally:
            self.process.kill()
            self.process.wait()

    def _connect(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=str(self.socket))
        return httpx.Client(base_url="http://ingle", transport=transport, timeout=60)

    def models(self) -> list[dict[str, Any]]:
        """The models that `ps` shows."""
        return self.http.get("/ingle/v1/status").json()["models"]

    def worker(self) -> psutil.Process:
        """The process of the only model."""
        (model,) = self.models()
        return psutil.Process(model["pid"])

    def processor_seconds(self) -> float:
        """The CPU time used so far."""
        return sum(psutil.Process(self.process.pid).cpu_times()[:2])

    def descriptors(self) -> int:
        """The number of open file descriptors."""
        return psutil.Process(self.process.pid).num_fds()

    def zombies(self) -> list[psutil.Process]:
        """Children that ended and were not reaped."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if _is_zombie(child)]

    def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a condition is true."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def metric(self, name: str) -> float:
        """The sum of a metric over all models."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _install(home: Path) -> None:
    folder = home / "models" / "echo" / "1"
    if folder.exists():
        return
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"GGUF")
    facts: dict[str, Any] = {"licence": "", "description": "", "quantization": "", "source": "test"}
    write_manifest(
        folder,
        Manifest(
            name="echo:1",
            file="model.gguf",
            size=4,
            sha256="0" * 64,
            parameters=1,
            architecture="llama",
            context=256,
            chat=True,
            **facts,
        ),
    )


MakeDaemon = Callable[..., FaultDaemon]


@pytest.fixture
def make_daemon(tmp_path: Path) -> Iterator[MakeDaemon]:
    """Starts daemons, each on a separate home unless one is given."""
    made: list[FaultDaemon] = []

    def make(
        script: dict[str, Any] | None = None, *, home: Path | None = None, **options: Any
    ) -> FaultDaemon:
        made.append(FaultDaemon(home or tmp_path / f"d{len(made)}", script, **options))
        return made[-1]

    with ExitStack() as ends:
        yield make
        for daemon in made:
            ends.callback(daemon.stop)
        for daemon in made:
            if daemon.process.poll() is None:
                daemon.check_unharmed()


class ModelServer:
    """Serves a catalog's models on the loopback interface, slowly and with range requests."""

    def __init__(self, models: dict[str, bytes]) -> None:
        self.models = models
        self.starts: list[int] = []
        """The first byte of each request's range."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner._answer(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def catalog(self) -> str:
        """The catalog file that names the models."""
        text = 'default = "tiny"\n'
        for name, content in self.models.items():
            tag, digest = name.partition(":")[2], hashlib.sha256(content).hexdigest()
            text += f"""
[[models]]
name = "tiny"
tag = "{tag}"
description = "A model for tests."
licence = "MIT"
parameters = 1
quantization = "F32"
context = 512
chat = false
file = "tiny-{tag}.gguf"
size = {len(content)}
sha256 = "{digest}"
sources = [{{type = "url", url = "http://127.0.0.1:{self._server.server_port}/{name}"}}]
"""
        return text

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        content = self.models[handler.path.removeprefix("/")]
        start = int(handler.headers.get("Range", "bytes=0-")[6:].rstrip("-"))
        self.starts.append(start)
        handler.send_response(206 if start else 200)
        if start:
            last = len(content) - 1
            handler.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
        handler.send_header("ETag", f'"{handler.path}"')
        handler.send_header("Content-Length", str(len(content) - start))
        handler.end_headers()
        try:
            for begin in range(start, len(content), PIECE):
                handler.wfile.write(content[begin : begin + PIECE])
                time.sleep(PIECE / len(content))
        except OSError:  # the daemon was killed
            handler.close_connection = True


@pytest.fixture
def models(tmp_path: Path, write_small_llama: WriteSmallLlama) -> Iterator[ModelServer]:
    """Two models of a few megabytes, `tiny:a` and `tiny:b`."""
    path = tmp_path / "m.gguf"
    contents = [write_small_llama(path, seed=seed, width=256).read_bytes() for seed in (1, 2)]
    server = ModelServer(dict(zip(("tiny:a", "tiny:b"), contents, strict=True)))
    yield server
    server.close()


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that records writes."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("needs Linux and gcc")
    return compile_recorder(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(autouse=True)
def _needs_unix() -> None:  # pyright: ignore[reportUnusedFunction]
    if sys.platform == "win32":
        pytest.skip("needs signals and unix sockets")
