"""`ingle doctor` on this machine: without a daemon, with one, and with invalid settings."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingle.daemon.main import main
from ingle.daemon.settings.paths import Paths
from ingle.daemon.terminal.terminal_colors import TerminalColors

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def no_tcp_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Avoid port conflicts with another ingle on this machine; stop the daemon afterwards."""
    monkeypatch.setenv("INGLE_PORT", "-1")
    yield
    main(["stop"])


def run_doctor(ingle: Run, status: int) -> Any:
    done = ingle("doctor", "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def codes(report: Any) -> list[str]:
    return [finding["code"] for finding in report["findings"]]


@pytest.mark.slow
def test_reports_a_stopped_daemon_without_starting_it(ingle: Run) -> None:
    """The doctor does not start a daemon."""
    report = run_doctor(ingle, 0)
    assert report["situation"]["daemon"]["state"] == "stopped"
    assert report["situation"]["machine"]["software"]["llama_cpp"]["version"]
    text = ingle("doctor").stdout
    assert "not running" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80 or "/" in text
    assert ingle("ps").stdout == "The daemon is not running.\n"


@pytest.mark.slow
def test_reports_a_running_daemon(ingle: Run) -> None:
    ingle("list")
    report = run_doctor(ingle, 0)
    assert report["situation"]["daemon"]["state"] == "running"
    assert "daemon" in report["fine"]


@pytest.mark.slow
def test_busy_port_is_a_finding(ingle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("INGLE_PORT", str(server.getsockname()[1]))
        assert codes(run_doctor(ingle, 1))[0] == "port-taken"


@pytest.mark.slow
def test_invalid_config_file_is_a_finding(ingle: Run, paths: Paths) -> None:
    """Invalid settings are a finding and do not stop the doctor."""
    paths.config.mkdir(parents=True)
    paths.config_file.write_text("kontext = 4096\n")
    report = run_doctor(ingle, 1)
    assert report["findings"][0]["code"] == "settings-wrong"
    assert "kontext" in report["findings"][0]["what"]


@pytest.mark.slow
def test_unresponsive_socket_is_a_finding(ingle: Run, paths: Paths) -> None:
    paths.make_private()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.socket))
        Path(paths.socket).chmod(0o600)
        listener.listen()
        assert "daemon-silent" in codes(run_doctor(ingle, 1))


def test_colors_are_disabled_by_no_color_and_dumb_terminals() -> None:
    assert TerminalColors(enabled=True).bold("a") == "\x1b[1ma\x1b[0m"
    assert TerminalColors.for_output({"NO_COLOR": "1"}).bold("a") == "a"
    assert TerminalColors.for_output({"TERM": "dumb"}).colour("a", "red") == "a"
