"""System faults: read-only home, full disk, few descriptors, stopped processes, clock jumps."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import MakeDaemon, ModelServer

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
UNSHARE = ("unshare", "--mount", "--map-root-user", "--user")


def streamed_text(lines: list[str]) -> str:
    """Return the text of a complete stream of `/v1/completions`."""
    *events, last = [line[6:] for line in lines if line.startswith("data: ")]
    assert last == "[DONE]"
    return "".join(json.loads(event)["choices"][0]["text"] for event in events)


def in_namespace(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script that may mount in a namespace; skips if that is not possible."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("needs mount namespaces")
    probe = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True)
    if probe.returncode:
        pytest.skip("this user may not mount, not even in a namespace")
    return subprocess.run(
        [*UNSHARE, "sh", "-euc", script, "sh", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "INGLE": INGLE},
    )


WITH_DAEMON = """
    export INGLE_HOME
    "$INGLE" serve --port -1 2> "$LOG" & pid=$!
    trap 'kill $pid; wait $pid' EXIT
    until grep -q Listening "$LOG"; do kill -0 $pid || { cat "$LOG" >&2; exit 9; }; sleep 0.05; done
"""


@pytest.mark.slow
@pytest.mark.model
def test_read_only_home_is_logged_and_requests_are_served(
    smollm2_path: Path, tmp_path: Path
) -> None:
    home = tmp_path / "h"
    (home / "state").mkdir(parents=True)
    script = f"""
        INGLE_HOME="$1" LOG="$2"
        mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"
        {WITH_DAEMON}
        "$INGLE" run "$3" "What is it?" --temperature 0 --max-tokens 20 < /dev/null
        "$INGLE" pull smollm2 || echo "status $?"
    """
    log = tmp_path / "log"
    done = in_namespace(script, str(home), str(log), str(smollm2_path))
    answer = done.stdout.splitlines()[0]
    assert len(answer) > 10, done.stderr + log.read_text()
    assert "status 1" in done.stdout
    assert "Traceback" not in done.stderr
    assert "cannot be written" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_full_disk_fails_only_requests_that_write(tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir()
    script = f"""
        INGLE_HOME="$1" LOG="$2"
        mount -t tmpfs -o size=2m x "$1"
        {WITH_DAEMON}
        fill() {{ cat /dev/zero > "$1/full" || true; }}; fill "$1" 2> /dev/null
        head -c 300000 /dev/zero > "$2.up"
        ask() {{ curl -s --unix-socket "$INGLE_HOME/runtime/ingle.sock" "$@"; }}
        ask -F purpose=batch -F "file=@$2.up" http://ingle/v1/files; echo
        ask http://ingle/health; echo
        "$INGLE" key new test || echo "status $?"
        rm "$1/full"
        ask -F purpose=batch -F "file=@$2.up" http://ingle/v1/files
    """
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    log = tmp_path / "log"
    done = in_namespace(script, str(home), str(log))
    full, health, *rest = done.stdout.splitlines()
    assert "disk_full" in full, done.stdout + done.stderr
    assert "ok" in health
    assert any("status 1" in line for line in rest), done.stdout
    assert '"bytes":300000' in rest[-1].replace(" ", "")
    assert "Traceback" not in done.stderr + log.read_text()


PULL_PROGRAM = """
import errno, sys
from pathlib import Path
from ingle.models.catalog import Catalog
from ingle.models.errors import DiskFull
from ingle.models.store.model_store import ModelStore

disk = Path(sys.argv[1])
store = ModelStore(disk / "models", Catalog.parse(Path(sys.argv[2]).read_bytes()))

def fill(progress):
    if progress.received > 1_000_000 and not (disk / "full").exists():
        try:
            with (disk / "full").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 12))
        except OSError as error:
            assert error.errno == errno.ENOSPC

try:
    store.pull("tiny:a", fill)
except DiskFull as error:
    print(error.message)
left = [path.name for path in store.root.rglob("*") if path.is_file()]
print(store.list(), [name for name in left if not name.endswith(".lock")])
(disk / "full").unlink()
print(store.pull("tiny:a").sha256)
"""


@pytest.mark.slow
def test_disk_full_during_a_download_leaves_no_partial_file(
    tmp_path: Path, models: ModelServer
) -> None:
    disk, catalog, program = tmp_path / "disk", tmp_path / "catalog.toml", tmp_path / "pulls.py"
    disk.mkdir()
    catalog.write_text(models.catalog())
    program.write_text(PULL_PROGRAM)
    script = 'mount -t tmpfs -o size=48m x "$1"; exec "$4" -P "$3" "$1" "$2"'
    done = in_namespace(script, str(disk), str(catalog), str(program), sys.executable)
    message, left, digest = done.stdout.splitlines() or [done.stderr] * 3
    assert "The disk is full" in message, done.stderr
    assert left == "[] []"
    assert digest == hashlib.sha256(models.models["tiny:a"]).hexdigest()


@pytest.mark.slow
def test_daemon_out_of_descriptors_does_not_spin_and_recovers(make_daemon: MakeDaemon) -> None:
    import resource

    import psutil

    def limit_descriptors() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

    daemon = make_daemon({"reply": "Here."}, preexec=limit_descriptors)
    process = psutil.Process(daemon.process.pid)
    before = process.num_fds()
    crowd = [socket.socket(socket.AF_UNIX) for _ in range(120)]
    try:
        for connection in crowd:
            connection.settimeout(2)
            connection.connect(str(daemon.socket))
        time.sleep(0.3)
        used = sum(process.cpu_times()[:2])
        time.sleep(2)
        assert sum(process.cpu_times()[:2]) - used < 1.0  # a spinning accept loop would use both
    finally:
        for connection in crowd:
            connection.close()
    daemon.until(lambda: process.num_fds() <= before + 1)
    body = {"model": "echo:1", "prompt": "Hello"}
    answer = daemon.http.post("/v1/completions", json=body).json()
    assert answer["choices"][0]["text"] == "Here."
    assert daemon.process.poll() is None


@pytest.mark.slow
def test_stream_continues_after_sigstop_and_sigcont(make_daemon: MakeDaemon) -> None:
    import psutil

    reply = "word " * 60
    daemon = make_daemon({"reply": reply, "step_seconds": 0.01})
    body = {"model": "echo:1", "prompt": "Hello", "stream": True, "max_tokens": 512}
    with daemon.http.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        tree = [psutil.Process(daemon.process.pid)]
        tree += tree[0].children(recursive=True)
        for process in tree:
            process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        for process in tree:
            process.send_signal(signal.SIGCONT)
        assert streamed_text([first, *lines]) == reply
    assert daemon.metric("ingle_worker_deaths_total") == 0


@pytest.mark.slow
@pytest.mark.parametrize("years", [10, -10])
def test_clock_jump_does_not_interrupt_streams(
    make_daemon: MakeDaemon, tmp_path: Path, years: int
) -> None:
    clock = tmp_path / "clock"
    reply = "word " * 10
    daemon = make_daemon(
        {"reply": reply, "step_seconds": 0.01}, environ={"INGLE_TEST_CLOCK": str(clock)}
    )
    stored = {"model": "echo:1", "input": "Hello"}
    response = daemon.http.post("/v1/responses", json=stored).json()
    body = {"model": "echo:1", "prompt": "Hello", "stream": True, "max_tokens": 512}
    with daemon.http.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        clock.write_text(str(years * 365 * 86400))
        assert streamed_text([first, *lines]) == reply
    assert [model["state"] for model in daemon.models()] == ["ready"]
    second = daemon.http.post(
        "/v1/responses", json={**stored, "previous_response_id": response["id"]}
    ).json()
    assert second["previous_response_id"] == response["id"]
    assert second["output"][0]["content"][0]["text"] == reply
    assert daemon.http.get("/health/ready?model=echo:1").json()["model"] == "echo:1"
