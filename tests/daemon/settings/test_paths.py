"""Locations of files and folders, and permissions of private folders."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from ingle.daemon.server.instance_lock import InstanceLock
from ingle.daemon.settings.paths import (
    LONGEST_SOCKET_PATH,
    FolderUnusable,
    Paths,
    UnsafeFolder,
    check_private_folder,
    find_paths,
    make_private_folder,
    private_temporary_folder,
    socket_path,
)

pytestmark = pytest.mark.quick


def test_home_moves_every_folder(tmp_path: Path) -> None:
    paths = find_paths({"INGLE_HOME": str(tmp_path), "XDG_CONFIG_HOME": "/elsewhere"})
    assert paths == Paths(
        tmp_path / "config", tmp_path / "models", tmp_path / "state", tmp_path / "runtime"
    )
    assert paths.config_file == tmp_path / "config/config.toml"
    assert paths.lock.parent == paths.runtime
    assert paths.log.parent == paths.state


def test_relative_home_is_resolved_against_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_paths({"INGLE_HOME": "here"}).models == tmp_path / "here/models"


def test_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where a folder belongs")
    with pytest.raises(FolderUnusable) as caught:
        find_paths({"INGLE_HOME": str(tmp_path / "home")}).make_private()
    assert caught.value.message == f"{tmp_path}/home/runtime cannot be written: Not a directory."
    assert "INGLE_HOME" in caught.value.hint


def test_home_that_becomes_read_only_keeps_the_places_of_its_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"INGLE_HOME": str(tmp_path)}
    paths = find_paths(environ)
    paths.make_private()
    lock = InstanceLock(paths.lock)
    lock.acquire()

    def refused(_path: Path, _mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", refused)  # root may write in spite of permissions
    try:
        assert find_paths(environ) == paths
    finally:
        lock.release()
    assert find_paths(environ).runtime.parent == private_temporary_folder()


def test_find_paths_creates_nothing(tmp_path: Path) -> None:
    paths = find_paths({"INGLE_HOME": str(tmp_path / "home")})
    assert paths.socket.name == "ingle.sock"
    paths.check_private()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems use platformdirs directly")
def test_agrees_with_platformdirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INGLE_HOME", raising=False)
    for variables in (
        {"HOME": str(tmp_path)},
        {
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / "c"),
            "XDG_DATA_HOME": str(tmp_path / "d"),
            "XDG_STATE_HOME": str(tmp_path / "s"),
            "XDG_RUNTIME_DIR": str(tmp_path),
        },
    ):
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        paths = find_paths(os.environ)
        assert paths.config == platformdirs.user_config_path("ingle")
        assert paths.models == platformdirs.user_data_path("ingle") / "models"
        assert paths.state == platformdirs.user_state_path("ingle")
    assert paths.runtime == platformdirs.user_runtime_path("ingle")


def test_relative_xdg_variables_are_ignored(tmp_path: Path) -> None:
    paths = find_paths({"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"})
    assert paths.config == tmp_path / ".config/ingle"


def test_missing_xdg_runtime_dir_is_not_used(tmp_path: Path) -> None:
    paths = find_paths({"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "gone")})
    assert tmp_path not in paths.runtime.parents
    assert paths.runtime in (
        Path(f"/run/user/{os.getuid()}/ingle"),
        private_temporary_folder(),
    )


def test_long_home_gets_a_short_socket_path(tmp_path: Path) -> None:
    runtime = tmp_path / ("x" * 120) / "runtime"
    path = socket_path(runtime, Path("/t"))
    assert len(os.fsencode(path)) <= LONGEST_SOCKET_PATH
    assert path.parent.parent == private_temporary_folder(Path("/t"))
    assert path == socket_path(runtime, Path("/t"))
    assert path != socket_path(tmp_path / ("y" * 120) / "runtime", Path("/t"))


def test_socket_path_length_is_counted_in_bytes(tmp_path: Path) -> None:
    runtime = Path("/" + "é" * 45)  # 56 characters including the file name, 101 bytes
    assert len(str(runtime / "ingle.sock")) < LONGEST_SOCKET_PATH
    assert socket_path(runtime, Path("/t")).parent.parent == private_temporary_folder(Path("/t"))


def test_make_private_with_a_long_home(tmp_path: Path) -> None:
    paths = find_paths({"INGLE_HOME": str(tmp_path / ("x" * 120))})
    try:
        paths.make_private()
        assert paths.socket.parent != paths.runtime
        for folder in (paths.runtime, paths.socket.parent, paths.socket.parent.parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        paths.check_private()
    finally:
        paths.socket.parent.rmdir()


def test_private_folder_is_created_and_its_mode_repaired(tmp_path: Path) -> None:
    folder = tmp_path / "a/b/runtime"
    make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("prepare", [make_private_folder, check_private_folder])
def test_symlinked_folder_is_refused(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    (tmp_path / "runtime").symlink_to(target)
    with pytest.raises(UnsafeFolder, match="is a link") as caught:
        prepare(tmp_path / "runtime")
    assert "INGLE_HOME" in caught.value.hint
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    assert list(target.iterdir()) == []


def test_dangling_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runtime").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UnsafeFolder):
        make_private_folder(tmp_path / "runtime")
    assert not (tmp_path / "nowhere").exists()


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runtime").write_text("")
    with pytest.raises(UnsafeFolder, match="not a folder"):
        make_private_folder(tmp_path / "runtime")


@pytest.mark.parametrize("prepare", [make_private_folder, check_private_folder])
@pytest.mark.skipif(os.getuid() != 0, reason="only root can change the owner of a folder")
def test_folder_of_another_user_is_refused(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    folder = tmp_path / "runtime"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with pytest.raises(UnsafeFolder, match="another user"):
        prepare(folder)


@pytest.mark.parametrize("name", ["config", "state"])
@pytest.mark.skipif(os.getuid() != 0, reason="only root can change the owner of a folder")
def test_home_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    paths = find_paths({"INGLE_HOME": str(tmp_path)})
    paths.make_private()
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    os.chown(folder, 12345, 12345)
    for check in (paths.make_private, paths.check_private):
        with pytest.raises(UnsafeFolder, match=r"another user \(uid 12345\)"):
            check()


def test_parent_folder_is_checked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ingle.daemon.settings.paths.private_temporary_folder", lambda: tmp_path / "outer"
    )
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "outer").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFolder, match="outer"):
        make_private_folder(tmp_path / "outer/hash")
    with pytest.raises(UnsafeFolder, match="outer"):
        check_private_folder(tmp_path / "outer/hash")
    assert list((tmp_path / "elsewhere").iterdir()) == []
