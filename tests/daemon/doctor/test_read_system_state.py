"""Reading the system state of this machine: folders, port, limits."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import psutil
import pytest

from ingle.daemon.doctor.diagnose import diagnose
from ingle.daemon.doctor.read_system_state import (
    find_neighbours,
    read_folders,
    read_limits,
    read_port,
    read_system_state,
)
from ingle.daemon.doctor.system_state import DaemonState
from ingle.daemon.engines.engine_failures import EngineFailures
from ingle.daemon.settings.config import load_config
from ingle.daemon.settings.paths import find_paths

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX modes and owners")


def test_sandbox_that_denies_process_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(psutil, "net_connections", refuse)
    monkeypatch.setattr(psutil, "process_iter", refuse)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = read_port("127.0.0.1", listener.getsockname()[1], DaemonState())
    assert (port.taken, port.pid) == (True, 0)
    assert find_neighbours([], []) == []


def test_read_system_state_of_this_machine(ingle_home: Path) -> None:
    situation = read_system_state(load_config({"INGLE_HOME": str(ingle_home)}), DaemonState())
    assert situation.machine.memory.total > 0
    assert [folder.use for folder in situation.folders] == ["config", "models", "state", "runtime"]
    assert all(folder.writable and not folder.problem for folder in situation.folders)
    assert (ingle_home / "state/machine.json").exists()
    assert "settings" in diagnose(situation).fine


@pytest.mark.slow
def test_recorded_engine_failures_are_read_with_the_present_setting(ingle_home: Path) -> None:
    config = load_config({"INGLE_HOME": str(ingle_home)})
    EngineFailures(config.paths.engine_failures).add("cuda", "/m.gguf", "It hangs.", "m:1")
    situation = read_system_state(config, DaemonState())
    (failure,) = situation.engine_failures
    assert failure.failed_at > 0
    assert failure.setting == situation.engine_setting
    assert [
        finding.what for finding in diagnose(situation).findings if "failed" in finding.what
    ] == ["ingle's own engine failed on m:1."]


@posix
def test_folder_permissions_and_links(ingle_home: Path, tmp_path: Path) -> None:
    paths = find_paths({"INGLE_HOME": str(ingle_home)})
    paths.runtime.mkdir(parents=True)
    paths.runtime.chmod(0o755)
    assert [folder.private for folder in read_folders(paths)] == [True, True, True, False]
    paths.runtime.rmdir()
    paths.runtime.symlink_to(tmp_path)
    *rest, runtime = read_folders(paths)
    assert "a link" in runtime.problem
    assert runtime.hint
    assert not any(folder.problem for folder in rest)
    paths.runtime.unlink()
    paths.runtime.symlink_to(tmp_path / "nowhere")
    assert "a link" in read_folders(paths)[-1].problem


@posix
@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_unwritable_folder(ingle_home: Path) -> None:
    ingle_home.mkdir()
    ingle_home.chmod(0o500)
    folders = read_folders(find_paths({"INGLE_HOME": str(ingle_home)}))
    assert not any(folder.writable for folder in folders)
    ingle_home.chmod(0o700)


def test_file_in_place_of_a_folder(ingle_home: Path) -> None:
    ingle_home.write_text("")
    folders = read_folders(find_paths({"INGLE_HOME": str(ingle_home)}))
    assert not any(folder.writable for folder in folders)


def test_busy_port_and_its_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number: int = server.getsockname()[1]
        port = read_port("127.0.0.1", number, DaemonState())
        assert port.taken
        assert not port.ours
        assert port.pid in (os.getpid(), 0)  # some systems do not report it
        daemon = DaemonState(state="running", address=f"127.0.0.1:{number}")
        assert read_port("127.0.0.1", number, daemon).ours
    assert not read_port("127.0.0.1", number, DaemonState()).taken
    assert read_port("127.0.0.1", -1, DaemonState()).number == -1


def test_open_files_limit() -> None:
    files = read_limits().open_files
    assert files is None or files > 0
