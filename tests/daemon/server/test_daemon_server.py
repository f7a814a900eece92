"""The daemon process: a single instance per home, orderly shutdown, and no leftovers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and unix sockets")

SERVE = """
import os, sys, traceback
from ingle.daemon.server import daemon_server as server
from ingle.daemon.settings.config import load_config
try:
    server.run(load_config(os.environ, {"port": int(sys.argv[1]), "shutdown_grace": 60.0}))
except Exception as error:
    print(type(error).__name__, error, file=sys.stderr)
    sys.exit(3)
"""

Serve = Callable[..., subprocess.Popen[str]]
StillRunning = Callable[[Iterable[psutil.Process]], list[psutil.Process]]


@pytest.fixture
def serve(ingle_home: Path) -> Generator[Serve]:
    """Start a daemon process on the test's home; `port` 0 picks any port."""
    started: list[subprocess.Popen[str]] = []

    def start(port: int = 0) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE, str(port)],
            cwd="/",
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "INGLE_HOME": str(ingle_home)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def socket_of(home: Path) -> Path:
    return home / "runtime" / "ingle.sock"


def client(home: Path) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(socket_of(home)))
    return httpx.Client(base_url="http://ingle", transport=transport, timeout=60)


def wait_until_up(home: Path) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while not listens(socket_of(home)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with client(home) as http:
        return http.get("/ingle/v1/status").json()


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def error_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.read()


def test_second_daemon_reports_the_running_one(serve: Serve, ingle_home: Path) -> None:
    serve()
    status = wait_until_up(ingle_home)
    second = serve()
    assert second.wait(120) == 3
    complaint = error_of(second)
    assert "AlreadyRunning" in complaint
    assert str(status["pid"]) in complaint
    assert status["socket"] in complaint
    assert status["address"] in complaint
    assert wait_until_up(ingle_home)["pid"] == status["pid"]


@pytest.mark.slow
def test_concurrent_starts_leave_one_daemon(serve: Serve, ingle_home: Path) -> None:
    processes = [serve() for _ in range(4)]
    deadline = time.monotonic() + 120
    while sum(p.poll() is None for p in processes) > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    alive = [process for process in processes if process.poll() is None]
    assert len(alive) == 1
    assert wait_until_up(ingle_home)["pid"] == alive[0].pid
    assert [p.returncode for p in processes if p is not alive[0]] == [3] * 3


@pytest.mark.slow
def test_busy_port_exits_with_error_and_leaves_no_socket(
    serve: Serve, ingle_home: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        process = serve(port)
        assert process.wait(120) == 3
        complaint = error_of(process)
        assert "PortInUse" in complaint
        assert str(port) in complaint
    assert not socket_of(ingle_home).exists()
    serve(port)
    assert wait_until_up(ingle_home)["address"] == f"127.0.0.1:{port}"


@pytest.mark.parametrize("shutdown_method", ["SIGTERM", "SIGINT", "http"])
def test_orderly_shutdown_removes_the_socket_and_exits_with_0(
    serve: Serve, ingle_home: Path, shutdown_method: str
) -> None:
    process = serve()
    wait_until_up(ingle_home)
    if shutdown_method == "http":
        with client(ingle_home) as http:
            assert http.post("/ingle/v1/shutdown").status_code == 202
    else:
        process.send_signal(getattr(signal, shutdown_method))
    assert process.wait(120) == 0, error_of(process)
    assert not socket_of(ingle_home).exists()
    assert (ingle_home / "runtime" / "ingle.lock").read_bytes() == b""


def test_daemon_starts_after_the_previous_one_was_killed(serve: Serve, ingle_home: Path) -> None:
    first = serve()
    wait_until_up(ingle_home)
    first.kill()
    first.wait()
    assert socket_of(ingle_home).exists()
    second = serve()
    deadline = time.monotonic() + 120
    while (status := wait_until_up(ingle_home))["pid"] != second.pid:
        assert time.monotonic() < deadline
    assert status["pid"] == second.pid


def test_open_event_stream_does_not_delay_shutdown(serve: Serve, ingle_home: Path) -> None:
    process = serve()
    wait_until_up(ingle_home)
    with client(ingle_home) as http, http.stream("GET", "/ingle/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: gauges"
        process.terminate()
        # At most one event follows, reporting that all models are idle.
        rest = [line for line in lines if line.startswith("event")]
        assert rest in ([], ["event: gauges"])
    assert process.wait(120) == 0


@pytest.mark.slow
@pytest.mark.model
def test_shutdown_finishes_answers_and_leaves_no_processes(
    serve: Serve, ingle_home: Path, smollm2_path: Path, still_running: StillRunning
) -> None:
    process = serve()
    wait_until_up(ingle_home)
    body = {
        "model": str(smollm2_path),
        "messages": [{"role": "user", "content": "Count to twenty."}],
        "max_tokens": 24,
        "stream": True,
    }
    with client(ingle_home) as http:
        with http.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.iter_lines()
            while not next(lines).startswith("data: "):
                continue
            workers = psutil.Process(process.pid).children(recursive=True)
            assert workers
            process.terminate()
            data = [line for line in lines if line.startswith("data: ")]
        assert data[-1] == "data: [DONE]"
        assert json.loads(data[-2].removeprefix("data: "))["choices"][0]["finish_reason"]
    assert process.wait(120) == 0
    assert not still_running(workers)
    # Prompt text does not appear in the log.
    assert "twenty" not in error_of(process)


def test_daemon_does_not_import_engines_or_http_clients(ingle_home: Path) -> None:
    code = (
        "import sys, ingle.daemon.server.daemon_server\n"
        "heavy = {'torch', 'triton', 'llama_cpp', 'jinja2', 'numpy', 'huggingface_hub', 'httpx',"
        " 'textual', 'psutil', 'zipfile', 'ingle.daemon.doctor.diagnose',"
        " 'ingle.daemon.http.openapi', 'ingle.models.download.model_download',"
        " 'ingle.models.fit.llama_cpp_fit', 'ingle.models.safetensors.model_folder'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd="/", check=True
    )
    assert result.stdout.strip() == "[]"


def test_garbage_is_collected_once_the_daemon_listens(ingle_home: Path) -> None:
    code = """
import gc, sys
from ingle.daemon.main import main
from ingle.daemon.server import daemon_server

serve = daemon_server.serve

def ready(services):
    print(gc.isenabled())
    services.shutdown()

daemon_server.serve = lambda config, **options: serve(config, **options | {"ready": ready})
sys.exit(main(["serve", "--port", "-1"]))
"""
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd="/", check=True
    )
    assert result.stdout.strip() == "True"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_idle_daemon_does_not_wake_up(serve: Serve, ingle_home: Path) -> None:
    process = serve()
    wait_until_up(ingle_home)
    time.sleep(0.5)  # the connection of the status request is closed by now
    before = context_switches(process.pid)
    time.sleep(2)
    assert context_switches(process.pid) == before


def context_switches(pid: int) -> int:
    """The number of voluntary context switches of all threads of the process."""
    statuses = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(text.split("voluntary_ctxt_switches:")[1].split()[0]) for text in statuses)


@pytest.mark.slow
def test_date_header_is_current(serve: Serve, ingle_home: Path) -> None:
    serve()
    wait_until_up(ingle_home)
    with client(ingle_home) as connection:
        for _ in range(2):
            before = int(time.time())
            date = parsedate_to_datetime(connection.get("/health").headers["date"]).timestamp()
            assert before <= date <= time.time()
            time.sleep(1.1)
