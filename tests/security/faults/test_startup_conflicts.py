"""Startup with conflicts: concurrent starts, a busy port, stale or foreign files."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import MakeDaemon

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
EXIT_ALREADY_RUNNING = 3


def serve(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [INGLE, "serve", *arguments],
        env={**os.environ, "INGLE_HOME": str(home)},
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_all(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.slow  # four at once are in tests/daemon/server/test_daemon_server.py
@pytest.mark.parametrize(("count", "rounds"), [(20, 10)])
def test_concurrent_starts_leave_one_daemon_and_the_others_exit_with_3(
    tmp_path: Path, count: int, rounds: int
) -> None:
    for number in range(rounds):
        home = tmp_path / f"h{number}"
        processes = [serve(home, "--port", "0") for _ in range(count)]
        try:
            deadline = time.monotonic() + 60
            while sum(p.poll() is None for p in processes) > 1 and time.monotonic() < deadline:
                time.sleep(0.02)
            alive = [process for process in processes if process.poll() is None]
            assert len(alive) == 1
            for process in processes:
                if process is not alive[0]:
                    assert process.returncode == EXIT_ALREADY_RUNNING
                    assert process.stderr is not None
                    error_output = process.stderr.read()
                    assert "ingle" in error_output
                    assert "Traceback" not in error_output
        finally:
            kill_all(processes)


def test_busy_port_error_names_its_process_and_exits_with_3(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        process = serve(tmp_path / "h", "--port", str(port))
        _, error_output = process.communicate(timeout=120)
    assert process.returncode == EXIT_ALREADY_RUNNING
    assert str(port) in error_output
    assert f"process {os.getpid()}" in error_output
    assert "--port 0" in error_output


@pytest.mark.slow
def test_stale_lock_and_socket_do_not_prevent_a_start(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    home = tmp_path / "h"
    runtime = home / "runtime"
    runtime.mkdir(parents=True, mode=0o700)
    (runtime / "ingle.lock").write_text('{"pid": 1, "socket": "/nowhere", "address": ')
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(runtime / "ingle.sock"))
    daemon = make_daemon({}, home=home)
    assert json.loads((runtime / "ingle.lock").read_text())["pid"] == daemon.process.pid
    assert daemon.http.get("/health").json() == {"status": "ok"}


HOLDER_PROGRAM = """
import os, socket, sys, time
from pathlib import Path
from ingle.daemon.server.instance_lock import InstanceLock, LockHolder
runtime = Path(sys.argv[1])
lock = InstanceLock(runtime / "ingle.lock")
lock.acquire()
listener = socket.socket(socket.AF_UNIX)
listener.bind(str(runtime / "ingle.sock"))
listener.listen()
lock.publish(LockHolder(os.getpid(), str(runtime / "ingle.sock"), None))
if os.fork():
    print("held", flush=True)
time.sleep(3)
"""


@pytest.mark.slow
def test_start_waits_for_a_child_of_a_killed_daemon(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Until it executes another program, a child holds the lock and the socket of its parent."""
    runtime = tmp_path / "h" / "runtime"
    runtime.mkdir(parents=True, mode=0o700)
    command = [sys.executable, "-P", "-c", HOLDER_PROGRAM, str(runtime)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
    daemon = make_daemon({}, home=tmp_path / "h")
    assert json.loads((runtime / "ingle.lock").read_text())["pid"] == daemon.process.pid
    assert daemon.http.get("/health").json() == {"status": "ok"}


def test_symlink_at_the_socket_path_is_not_followed(tmp_path: Path) -> None:
    runtime = tmp_path / "h" / "runtime"
    runtime.mkdir(parents=True, mode=0o700)
    target = tmp_path / "precious"
    target.write_text("kept")
    (runtime / "ingle.sock").symlink_to(target)
    process = serve(tmp_path / "h", "--port", "-1")
    _, error_output = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "is not a socket" in error_output
    assert target.read_text() == "kept"
