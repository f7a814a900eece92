"""Service files on systemd, launchd and Windows, and `ingle service`."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ingle.daemon.main import main
from ingle.daemon.service.launch_command import LaunchCommand, launch_of
from ingle.daemon.service.launchd import LaunchdService
from ingle.daemon.service.service_manager import ServiceFailed
from ingle.daemon.service.systemd import SystemdService, service_unit, socket_unit
from ingle.daemon.service.windows_task import WindowsTask
from ingle.daemon.settings.config import Config, load_config

WINDOWS = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


class FakePrograms:
    """Replaces the system's programs; commands containing a string in `failing` fail."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.ran: list[str] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        text = " ".join(command)
        self.ran.append(text)
        failed = any(part in text for part in self.failing)
        return subprocess.CompletedProcess(command, int(failed), "", "no, never" if failed else "")


@pytest.fixture
def config(ingle_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("INGLE_IMPORT_MODELS")
    return load_config(os.environ)


@pytest.fixture
def launch(config: Config) -> LaunchCommand:
    return launch_of(config, os.environ)


def test_units_pass_systemd_analyze(launch: LaunchCommand, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    unusual = launch._replace(environment={"INGLE_HOME": '/home/a "b" %h $x\\/é'})
    (tmp_path / "run").mkdir()
    for number, each in enumerate((launch, unusual)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "ingle.socket").write_text(socket_unit(each))
        (folder / "ingle.service").write_text(service_unit(each))
        done = subprocess.run(
            [analyze, "--user", "verify", "./ingle.socket", "./ingle.service"],
            cwd=folder,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_socket_and_service_units_use_the_same_path(launch: LaunchCommand) -> None:
    path = str(launch.config.socket)
    assert f"ListenStream={path}\n" in socket_unit(launch)
    assert f'Environment="INGLE_SOCKET={path}"\n' in service_unit(launch)
    assert "SocketMode=0600" in socket_unit(launch)


@pytest.mark.parametrize("port", [-1, 0])
def test_socket_unit_without_a_fixed_port_has_no_tcp_listener(
    launch: LaunchCommand, port: int
) -> None:
    portless = launch._replace(config=replace(launch.config, port=port))
    assert socket_unit(portless).count("ListenStream") == 1


def test_preloaded_models_start_the_service_at_login(launch: LaunchCommand) -> None:
    assert "WantedBy=default.target" not in service_unit(launch)
    eager = launch._replace(config=replace(launch.config, preload=("smollm2",)))
    assert "WantedBy=default.target" in service_unit(eager)


def test_launchd_agent_is_a_valid_property_list(launch: LaunchCommand) -> None:
    (file,) = LaunchdService(launch, {}, FakePrograms()).files()
    agent = plistlib.loads(file.content)
    assert agent["ProgramArguments"] == list(launch.command)
    assert agent["EnvironmentVariables"] == launch.environment
    assert (agent["RunAtLoad"], agent["Umask"]) == (True, 0o077)


def test_windows_task_is_valid_xml_and_escapes_names(launch: LaunchCommand) -> None:
    user = {"USERDOMAIN": "R&D", "USERNAME": "<Zoë>"}
    unusual = launch._replace(command=(r"C:\Program Files\ingle\python.exe", "-P", "a b"))
    (file,) = WindowsTask(unusual, user, FakePrograms()).files()
    root = ET.fromstring(file.content)
    text = {element.tag.removeprefix(WINDOWS): element.text for element in root.iter()}
    assert text["UserId"] == "R&D\\<Zoë>"
    assert (text["Command"], text["ExecutionTimeLimit"]) == ("%ComSpec%", "PT0S")
    assert text["Arguments"] is not None
    assert r'"C:\Program Files\ingle\python.exe" -P "a b"' in text["Arguments"]
    bare = unusual._replace(environment={})
    root = ET.fromstring(WindowsTask(bare, user, FakePrograms()).files()[0].content)
    commands = [element.text for element in root.iter(f"{WINDOWS}Command")]
    assert commands == [r"C:\Program Files\ingle\pythonw.exe"]


def test_install_is_idempotent_and_can_be_removed(launch: LaunchCommand) -> None:
    programs = FakePrograms()
    system = SystemdService(launch, os.environ, programs)
    assert len(system.write_files()) == 2
    assert system.write_files() == []
    system.start()
    assert programs.ran == [
        "systemctl --user daemon-reload",
        "systemctl --user enable ingle.socket ingle.service",
        "systemctl --user restart ingle.socket",
    ]
    status = system.status()
    assert (status.installed, status.current, status.state.enabled) == (True, True, True)
    system.files()[1].path.write_text("mine")
    assert not system.status().current
    assert system.write_files() == [str(system.files()[1].path)]
    assert len(system.remove_files()) == 2
    assert system.remove_files() == []
    assert not system.status().installed


def test_systemctl_error_is_reported(launch: LaunchCommand) -> None:
    system = SystemdService(launch, os.environ, FakePrograms("enable"))
    with pytest.raises(ServiceFailed, match="no, never"):
        system.start()


def test_without_a_running_systemd_only_no_start_installs(
    config: Config,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    units = tmp_path / "xdg/systemd/user"
    assert main(["service", "install"]) == 1
    assert "`--no-start` only writes the files" in capsys.readouterr().err
    assert not units.exists()
    assert main(["service", "install", "--no-start", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["written"]) == 2
    assert main(["service", "status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["installed"], status["state"]["running"]) == (True, None)
    assert status["trouble"] == "There is no systemd here."
    config.paths.config.mkdir(parents=True)
    assert main(["service", "uninstall"]) == 0
    output = capsys.readouterr().out
    assert str(config.paths.config) in output, "user data is kept"
    assert config.paths.config.exists()
    assert not list(units.iterdir())
    assert main(["service", "status"]) == 1


def test_dry_run_prints_files_without_writing(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["service", "install", "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["files"]
    assert sorted(Path(path).name for path in shown) == ["ingle.service", "ingle.socket"]
    assert not (tmp_path / "xdg").exists()


def test_install_warns_about_settings_of_the_shell_environment(
    config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGLE_KEEP_ALIVE", "1h")
    assert main(["service", "install", "--no-start"]) == 0
    assert "does not see INGLE_KEEP_ALIVE" in capsys.readouterr().err
