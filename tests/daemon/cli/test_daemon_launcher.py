"""Daemon startup: one process for any number of concurrent commands, and clear startup errors."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from ingle.daemon.cli.command_errors import CommandError
from ingle.daemon.cli.daemon_launcher import ensure_daemon
from ingle.daemon.client.sync_client import DaemonClient
from ingle.daemon.main import main
from ingle.daemon.settings.config import Config, load_config
from ingle.daemon.settings.paths import Paths
from ingle.daemon.stores.log_files import rotated

Messages = list[str]


@pytest.fixture
def config(paths: Paths) -> Iterator[Config]:
    """Settings of a temporary home; a daemon that a test started there is stopped afterwards."""
    config = load_config(os.environ)
    yield config
    client = DaemonClient(config.socket)
    if client.answers():
        client.post("/ingle/v1/shutdown", {}, dict)
        while client.answers():
            time.sleep(0.01)


@pytest.fixture
def serve(fake_serve: Path) -> Callable[[str], tuple[str, ...]]:
    """The command line of the fake `ingle serve` with the given behaviour."""
    return lambda behaviour: (sys.executable, "-P", str(fake_serve), behaviour)


def started_pids(messages: Messages) -> list[int]:
    return [int(text.rpartition(" ")[2].rstrip(").")) for text in messages]


def test_starts_one_daemon_and_reuses_it(
    config: Config, serve: Callable[[str], tuple[str, ...]]
) -> None:
    messages: Messages = []
    client = ensure_daemon(config, say=messages.append, command=serve(""))
    [pid] = started_pids(messages)
    assert client.status().pid == pid
    assert messages == [f"Started the ingle daemon (pid {pid})."]
    assert ensure_daemon(config, say=messages.append, command=("false",)).status().pid == pid
    assert len(messages) == 1


def silent_children() -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended meanwhile
            found += [child] if "silent" in child.cmdline() else []
    return found


def test_pid_of_a_daemon_that_was_faster_is_not_claimed(
    config: Config, serve: Callable[[str], tuple[str, ...]]
) -> None:
    messages: Messages = []
    with ThreadPoolExecutor(1) as pool:
        start = partial(ensure_daemon, config, say=messages.append, command=serve("silent"))
        answer = pool.submit(start)
        while not (ours := silent_children()):
            time.sleep(0.01)  # ours begins, and never takes the lock
        with subprocess.Popen(serve("")) as other:
            client = answer.result()
            assert client.status().pid == other.pid
            client.post("/ingle/v1/shutdown", {}, dict)
    for process in ours:
        process.kill()
    assert messages == []


@pytest.mark.parametrize(("port", "reported"), [("4711", True), ("0", True), ("-1", False)])
def test_busy_port_is_reported_on_startup(
    paths: Paths,
    serve: Callable[[str], tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    port: str,
    reported: bool,
) -> None:
    monkeypatch.setenv("INGLE_PORT", port)
    messages: Messages = []
    client = ensure_daemon(load_config(os.environ), say=messages.append, command=serve("portless"))
    client.post("/ingle/v1/shutdown", {}, dict)
    assert any(f"uses port {port}:" in text for text in messages) is reported
    assert max(map(len, messages)) <= 80


def test_started_daemon_is_detached_and_private(
    config: Config, serve: Callable[[str], tuple[str, ...]]
) -> None:
    messages: Messages = []
    ensure_daemon(config, say=messages.append, command=serve(""))
    [pid] = started_pids(messages)
    assert os.getsid(pid) == pid != os.getsid(0)
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path(os.devnull)
    assert Path(f"/proc/{pid}/fd/2").readlink() == config.paths.log
    assert stat.S_IMODE(config.paths.log.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.paths.runtime.stat().st_mode) == 0o700


def test_idle_daemon_of_an_older_version_is_replaced(
    config: Config, serve: Callable[[str], tuple[str, ...]]
) -> None:
    messages: Messages = []
    old = ensure_daemon(config, say=messages.append, command=serve("old")).status().pid

    def ensure(number: int) -> int:
        client = ensure_daemon(config, say=messages.append, command=serve(""))
        return client.status().pid

    with ThreadPoolExecutor(4) as pool:
        pids = set(pool.map(ensure, range(4)))
    assert len(pids) == 1
    assert old not in pids
    assert messages.count("The old one is idle: it ends, and the new one starts.") == 1
    assert started_pids([text for text in messages if text.startswith("Started")]) == [old, *pids]


@pytest.mark.parametrize("behaviour", ["", "slow"])
def test_concurrent_commands_start_one_daemon(
    config: Config, serve: Callable[[str], tuple[str, ...]], behaviour: str
) -> None:
    messages: Messages = []

    def ensure(number: int) -> int:
        client = ensure_daemon(config, say=messages.append, command=serve(behaviour))
        return client.status().pid

    with ThreadPoolExecutor(6) as pool:
        pids = set(pool.map(ensure, range(6)))
    assert len(pids) == 1
    assert started_pids(messages) == list(pids)


def test_waits_for_a_manually_started_daemon(
    config: Config, serve: Callable[[str], tuple[str, ...]]
) -> None:
    config.paths.make_private()
    messages: Messages = []
    with subprocess.Popen(serve("slow")) as manual:
        while not config.paths.lock.exists():
            time.sleep(0.005)
        client = ensure_daemon(config, say=messages.append, command=serve(""))
        assert client.status().pid == manual.pid
        assert messages == []
        client.post("/ingle/v1/shutdown", {}, dict)
        assert manual.wait(10) == 0


def test_startup_failure_reports_the_last_log_lines(
    config: Config, serve: Callable[[str], tuple[str, ...]]
) -> None:
    config.paths.log.parent.mkdir(parents=True)
    config.paths.log.write_text("of another day\n")
    with pytest.raises(CommandError) as caught:
        ensure_daemon(config, command=serve("broken"))
    assert caught.value.message == "The daemon ended during its start (exit status 1)."
    assert caught.value.hint == (
        "Error: The port is taken.\nUse --port.\n" + f"The whole log is in {config.paths.log}."
    )
    assert config.paths.log.read_text().startswith("of another day\n")


def test_full_log_disk_is_reported_on_startup_failure(
    config: Config, serve: Callable[[str], tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(config.paths.log.anchor)._replace(free=0)

    def full(path: Path) -> tuple[int, int, int]:
        assert path == config.paths.log.parent
        return usage

    monkeypatch.setattr(shutil, "disk_usage", full)
    with pytest.raises(CommandError) as caught:
        ensure_daemon(config, command=serve("mute"))
    assert f"The disk that holds {config.paths.log.parent} is full." in str(caught.value.hint)


def test_start_after_a_failed_attempt_succeeds(
    config: Config, serve: Callable[[str], tuple[str, ...]]
) -> None:
    with pytest.raises(CommandError):
        ensure_daemon(config, command=serve("broken"))
    assert ensure_daemon(config, say=lambda text: None, command=serve("")).answers()


def test_unresponsive_daemon_times_out(
    config: Config, serve: Callable[[str], tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def recording_popen(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        processes.append(popen(*arguments, **options))  # type: ignore[call-overload]
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", recording_popen)
    with pytest.raises(CommandError, match="does not answer on") as caught:
        ensure_daemon(config, command=serve("silent"), timeout=0.2)
    assert str(config.paths.log) in str(caught.value.hint)
    processes[0].kill()


def test_stale_socket_starts_a_new_daemon(
    config: Config, serve: Callable[[str], tuple[str, ...]]
) -> None:
    messages: Messages = []
    ensure_daemon(config, say=messages.append, command=serve(""))
    [pid] = started_pids(messages)
    os.kill(pid, signal.SIGKILL)
    client = DaemonClient(config.socket)
    while client.answers():
        time.sleep(0.005)
    assert config.socket.exists()
    ensure_daemon(config, say=messages.append, command=serve(""))
    assert len(messages) == 2


def test_large_log_is_rotated(config: Config, serve: Callable[[str], tuple[str, ...]]) -> None:
    config.paths.log.parent.mkdir(parents=True)
    with config.paths.log.open("wb") as log:
        log.truncate(9 * 2**20)
    ensure_daemon(config, say=lambda text: None, command=serve(""))
    assert config.paths.log.stat().st_size < 2**20
    assert rotated(config.paths.log, 1).stat().st_size == 9 * 2**20


def test_symlinked_log_is_refused(
    config: Config, serve: Callable[[str], tuple[str, ...]], tmp_path: Path
) -> None:
    config.paths.log.parent.mkdir(parents=True)
    (tmp_path / "precious").write_text("mine")
    config.paths.log.symlink_to(tmp_path / "precious")
    with pytest.raises(CommandError, match="cannot be written"):
        ensure_daemon(config, command=serve(""))
    assert (tmp_path / "precious").read_text() == "mine"


def test_relative_home_is_resolved_before_starting_the_daemon(
    tmp_path: Path,
    serve: Callable[[str], tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    paths: Paths,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INGLE_HOME", "r")
    client = ensure_daemon(load_config(os.environ), say=lambda text: None, command=serve(""))
    assert client.socket_path == tmp_path / "r/runtime/ingle.sock"
    client.post("/ingle/v1/shutdown", {}, dict)


def test_stop_waits_for_the_process_to_exit(
    config: Config,
    serve: Callable[[str], tuple[str, ...]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    messages: Messages = []
    threads = threading.active_count()  # including threads of other tests
    ensure_daemon(config, say=messages.append, command=serve(""))
    [pid] = started_pids(messages)
    assert main(["stop"]) == 0
    assert capsys.readouterr().out == f"Stopped the ingle daemon (pid {pid}).\n"
    with suppress(psutil.NoSuchProcess):  # it is our child, and a thread of ours reaps it
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert threading.active_count() <= threads + 1
