"""Commands against a real daemon, without a model."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator

import psutil
import pytest

from ingle.daemon.main import main
from ingle.daemon.settings.paths import Paths

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def stop_daemon(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the unix socket only, since the port may be taken; stop the daemon afterwards."""
    monkeypatch.setenv("INGLE_PORT", "-1")
    yield
    main(["stop"])


def has_ended(pid: int) -> bool:
    """True if the process is gone, or a zombie whose parent never reaps it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.slow
def test_daemon_is_started_on_demand_and_stopped(paths: Paths, ingle: Run) -> None:
    listed = ingle("list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert listed.stderr.startswith("Started the ingle daemon (pid ")
    assert "smollm2:135m" in [model["name"] for model in json.loads(listed.stdout)["models"]]
    status = json.loads(ingle("ps", "--json").stdout)
    assert (status["daemon"], status["socket"]) == ("running", str(paths.socket))
    assert (status["address"], status["models"]) == (None, [])
    assert f"(pid {status['pid']})" in listed.stderr
    assert ingle("unload").stdout == "No model was loaded.\n"
    stopped = ingle("stop")
    assert stopped.stdout == f"Stopped the ingle daemon (pid {status['pid']}).\n"
    assert has_ended(status["pid"])
    assert ingle("ps").stdout == "The daemon is not running.\n"


def test_concurrent_commands_share_one_daemon(paths: Paths, command: list[str]) -> None:
    processes = [
        subprocess.Popen(
            [*command, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/"
        )
        for _ in range(3)
    ]
    answers = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], answers
    assert "".join(errors for _, errors in answers).count("Started the ingle daemon") == 1


@pytest.mark.slow
def test_second_serve_reports_the_running_daemon(paths: Paths, ingle: Run) -> None:
    ingle("list")
    second = ingle("serve")
    assert second.returncode == 3
    assert second.stdout == ""
    assert str(paths.socket) in second.stderr
    assert "Error: ingle is already running as process" in second.stderr


def test_long_home_path_gets_a_short_socket_path(
    tmp_path: object, ingle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = f"{tmp_path}/{'x' * 120}"
    monkeypatch.setenv("INGLE_HOME", home)
    assert ingle("list").returncode == 0
    status = json.loads(ingle("ps", "--json").stdout)
    assert len(status["socket"]) <= 100
    assert ingle("stop").returncode == 0
    os.rmdir(os.path.dirname(status["socket"]))  # noqa: PTH106, PTH120


def test_damaged_model_file_is_a_readable_error(ingle: Run, tmp_path: object) -> None:
    with open(f"{tmp_path}/broken.gguf", "wb") as file:  # noqa: PTH123
        file.write(b"GGUF nonsense")
    done = ingle("run", "./broken.gguf", "Hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: " in done.stderr
    assert "broken.gguf" in done.stderr
