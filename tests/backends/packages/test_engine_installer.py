"""Installing an engine with the real package client, offline from a folder of wheels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.packages import engine_installer, package_client
from ingle.backends.packages.engine_installer import build_cache, install_engine
from ingle.backends.packages.engine_packages import EnginePackages, all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.packages.errors import InstallCancelled, InstallFailed
from ingle.backends.packages.package_source import ClientProgress, PackageSource

MakeWheel = Callable[..., Path]
MakePackages = Callable[..., EnginePackages]


def install(packages: EnginePackages, store: EngineStore, wheels: Path) -> list[ClientProgress]:
    progress: list[ClientProgress] = []
    install_engine(packages, store, PackageSource(str(wheels), offline=True), progress.append)
    return progress


def left_over(store: EngineStore) -> list[str]:
    """What interrupted installations left."""
    return [path.name for path in store.folder.glob("toy/.new*")]


def test_packages_are_installed_from_a_folder(
    make_packages: MakePackages, make_wheel: MakeWheel, store: EngineStore, wheels: Path
) -> None:
    make_wheel("toylib", code="import helper\n")
    make_wheel("helper")
    packages = make_packages("toylib==1.0", "helper==1.0", "absent==9 ; sys_platform == 'beos'")
    assert store.find("toy") is None
    progress = install(packages, store, wheels)
    assert [step.step for step in progress][-1] == "checking"
    folder = store.find("toy")
    assert folder is not None
    assert (folder / "helper/__init__.py").exists()
    assert store.import_path(["toy"]) == [str(folder)]
    record = store.record("toy")
    assert record is not None
    assert record.bytes > 0
    assert left_over(store) == []
    assert install(packages, store, wheels) == [], "it is installed"


def test_client_pip_installs_the_same(
    make_packages: MakePackages,
    make_wheel: MakeWheel,
    store: EngineStore,
    wheels: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without uv on the path the client is pip, here that of the tests' own environment."""
    monkeypatch.setattr(package_client, "find_uv", lambda: None)
    pip = (sys.executable, "-P", "-m", "pip")
    monkeypatch.setattr(package_client, "find_client", lambda: pip)
    make_wheel("toylib")
    install(make_packages("toylib==1.0"), store, wheels)
    assert store.is_current("toy")


def test_missing_wheel_is_named(
    make_packages: MakePackages, make_wheel: MakeWheel, store: EngineStore, wheels: Path
) -> None:
    make_wheel("toylib")
    with pytest.raises(InstallFailed, match="helper"):
        install(make_packages("toylib==1.0", "helper==1.0"), store, wheels)
    assert store.find("toy") is None
    assert left_over(store) == []


def test_damaged_wheel_is_refused(
    make_packages: MakePackages, make_wheel: MakeWheel, store: EngineStore, wheels: Path
) -> None:
    path = make_wheel("toylib")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InstallFailed, match="toylib"):
        install(make_packages("toylib==1.0"), store, wheels)
    assert store.find("toy") is None


def test_failed_upgrade_leaves_what_worked(
    make_packages: MakePackages, make_wheel: MakeWheel, store: EngineStore, wheels: Path
) -> None:
    make_wheel("toylib")
    install(make_packages("toylib==1.0"), store, wheels)
    working = store.find("toy")
    make_wheel("toylib", "2.0", code="raise RuntimeError('no such instruction')\n")
    newer = make_packages("toylib==2.0")
    assert not store.is_current("toy")
    with pytest.raises(InstallFailed, match="cannot be loaded: RuntimeError: no such instruction"):
        install(newer, store, wheels)
    assert store.find("toy") == working
    make_wheel("toylib", "3.0")
    install(make_packages("toylib==3.0"), store, wheels)
    assert store.find("toy") != working
    assert working is not None
    assert working.exists(), "a worker may still import from it"
    store.remove_replaced()
    assert not working.exists()
    assert store.is_current("toy")
    assert store.remove("toy") > 0
    assert store.find("toy") is None


def test_cancelled_installation_leaves_nothing(
    make_packages: MakePackages, make_wheel: MakeWheel, store: EngineStore, wheels: Path
) -> None:
    make_wheel("toylib")
    packages = make_packages("toylib==1.0")
    with pytest.raises(InstallCancelled):
        install_engine(packages, store, PackageSource(str(wheels)), cancelled=lambda: True)
    assert store.find("toy") is None
    assert left_over(store) == []


def test_leftovers_of_a_killed_installation_are_no_installation(
    make_packages: MakePackages, make_wheel: MakeWheel, store: EngineStore, wheels: Path
) -> None:
    make_wheel("toylib")
    packages = make_packages("toylib==1.0")
    (store.folder / "toy/.new-1/toylib").mkdir(parents=True)
    store.target(packages).mkdir(parents=True)  # renamed, but without its record
    assert store.find("toy") is None
    install(packages, store, wheels)
    assert store.is_current("toy")
    assert left_over(store) == []


def test_waiting_for_another_installation_can_be_cancelled(
    make_packages: MakePackages, store: EngineStore, wheels: Path
) -> None:
    packages = make_packages("toylib==1.0")
    lock = store.lock("toy")
    assert lock.try_acquire()
    with lock, pytest.raises(InstallCancelled):
        install_engine(packages, store, PackageSource(str(wheels)), cancelled=lambda: True)


def test_unwritable_folder_is_an_error_with_a_hint(
    make_packages: MakePackages, tmp_path: Path, wheels: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InstallFailed, match="cannot be written") as failed:
        install(make_packages("toylib==1.0"), EngineStore(tmp_path / "file" / "engines"), wheels)
    assert failed.value.hint


def test_build_is_copied_from_the_users_cache(
    make_packages: MakePackages,
    store: EngineStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packages = make_packages("toylib==1.0", build={"FAST": "ON"})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = build_cache(packages)
    assert cache is not None
    assert cache.is_relative_to(tmp_path / "cache")
    (cache / "toylib").mkdir(parents=True)
    (cache / "toylib/__init__.py").touch()
    install_engine(packages, store, PackageSource(offline=True))
    assert store.is_current("toy")
    assert (cache / "toylib/__init__.py").exists()


def test_missing_compiler_and_tool_are_named_before_anything_is_fetched(
    make_packages: MakePackages,
    store: EngineStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    packages = make_packages("toylib==1.0", build={"FAST": "ON"}, tool="no-such-tool")
    with pytest.raises(InstallFailed, match="`no-such-tool` is missing"):
        install_engine(packages, store, PackageSource())
    monkeypatch.setattr(engine_installer, "has_compiler", lambda: False)
    packages = make_packages("toylib==1.0", build={"FAST": "ON"})
    with pytest.raises(InstallFailed, match=r"there is no C\+\+ compiler") as failed:
        install_engine(packages, store, PackageSource())
    assert "g++" in (failed.value.hint or "")


def test_every_engine_pins_its_packages() -> None:
    for packages in all_engine_packages().values():
        lines = packages.pinned()
        assert any(line.startswith(f"{packages.distribution}==") for line in lines), packages.name
        assert all("==" in line for line in lines)
        assert packages.download_bytes > 10**6
