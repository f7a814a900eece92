"""Installations of engines: shared by their clients, and begun by what needs them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.packages.engine_packages import EnginePackages
from ingle.backends.packages.engine_store import EngineStore, InstalledPackages
from ingle.backends.packages.errors import InstallCancelled, InstallFailed
from ingle.backends.packages.package_source import ClientProgress, OnProgress, PackageSource
from ingle.daemon.access.api_keys import KeyLimitation, KeyStore
from ingle.daemon.access.permission import KeyNotAllowed
from ingle.daemon.client.engine_types import InstallProgress
from ingle.daemon.client.error_types import NativeError
from ingle.daemon.engines.engine_installs import EngineInstalls
from ingle.daemon.event_hub import EventHub
from ingle.daemon.http.route_access import Scope

if TYPE_CHECKING:
    from ..conftest import DaemonFactory, RunningDaemon

ROUTE = "/ingle/v1/engines"


class SlowInstaller:
    """Reports two steps, then finishes when the test sets `go`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.names: list[str] = []
        self.sources: list[PackageSource] = []
        self.go = threading.Event()
        self.error = error

    def __call__(
        self,
        packages: EnginePackages,
        store: EngineStore,
        source: PackageSource,
        on_progress: OnProgress,
        cancelled: Callable[[], bool],
    ) -> InstalledPackages:
        self.names.append(packages.name)
        self.sources.append(source)
        on_progress(ClientProgress())
        on_progress(ClientProgress("building", 34, 136, "llama.cpp"))
        while not self.go.wait(0.005):
            if cancelled():
                raise InstallCancelled
        if self.error is not None:
            raise self.error
        folder = store.begin(packages)
        (folder / "llama_cpp/lib").mkdir(parents=True)
        (folder / "llama_cpp/__init__.py").touch()
        (folder / "llama_cpp/lib/libllama.so").touch()
        return store.commit(packages, folder)


@pytest.fixture
def installer() -> SlowInstaller:
    return SlowInstaller()


@pytest.fixture
def without_llama_cpp(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the library of the tests' own environment."""
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path / "nowhere"))


@pytest.fixture
async def installs(
    tmp_path: Path, installer: SlowInstaller, without_llama_cpp: None
) -> AsyncGenerator[EngineInstalls]:
    store = EngineStore(tmp_path / "engines")
    made = EngineInstalls(store, PackageSource(), EventHub(), install=installer)
    yield made
    await made.close()


async def test_concurrent_requests_share_one_installation(
    installs: EngineInstalls, installer: SlowInstaller
) -> None:
    changes: list[bool] = []
    installs.on_change = lambda: changes.append(True)
    first, second = installs.join("llama.cpp"), installs.join("llama.cpp")
    assert first is second
    steps = [first.progress.step]
    async for progress in first.follow():
        steps.append(progress.step)
        if progress.step == "building":
            assert progress.text() == "building, 34 of 136"
            assert installs.progress("llama.cpp") == progress
            installer.go.set()
    assert steps[-2:] == ["building", "done"]
    assert (await first.result()).name == "llama.cpp"
    assert installer.names == ["llama.cpp"]
    assert changes == [True]
    assert installs.progress("llama.cpp") is None


async def test_load_waits_for_a_missing_engine_and_gets_its_folder(
    installs: EngineInstalls, installer: SlowInstaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLAMA_CPP_LIB_PATH")  # the folder's own library counts

    def is_available(_engine: str) -> bool:
        return installs.store.find("llama.cpp") is not None

    monkeypatch.setattr(installs, "is_available", is_available)
    told: list[InstallProgress] = []

    def tell(progress: InstallProgress) -> None:
        told.append(progress)
        installer.go.set()

    spec = LoadSpec(engine="llama.cpp", path="m.gguf", context=512)
    prepared = await installs.prepare(spec, tell)
    assert prepared.import_path == [str(installs.store.find("llama.cpp"))]
    assert told[-1].step == "done"
    assert (await installs.prepare(spec, tell)) == prepared
    assert installer.names == ["llama.cpp"]


async def test_failed_installation_fails_the_load(
    installs: EngineInstalls, installer: SlowInstaller
) -> None:
    installer.error = InstallFailed("There is no C++ compiler.", hint="Install g++.")
    installer.go.set()
    spec = LoadSpec(engine="llama.cpp", path="m.gguf", context=512)
    with pytest.raises(InstallFailed, match="no C"):
        await installs.prepare(spec, lambda progress: None)
    with pytest.raises(InstallFailed, match="no C"):
        await installs.prepare(spec, lambda progress: None)
    assert len(installer.names) == 2, "the next load tries again"


async def test_larger_engines_are_not_installed_unasked(
    installs: EngineInstalls, installer: SlowInstaller, monkeypatch: pytest.MonkeyPatch
) -> None:

    def is_available(engine: str) -> bool:
        return engine == "llama.cpp"

    monkeypatch.setattr(installs, "is_available", is_available)
    spec = LoadSpec(engine="cuda", path="folder", context=512)
    await installs.prepare(spec, lambda progress: None)
    assert installer.names == []


async def test_download_begins_the_installation(
    installs: EngineInstalls, installer: SlowInstaller
) -> None:
    installs.begin_default()
    installs.begin_default()
    await asyncio.sleep(0)
    assert installs.progress("llama.cpp") is not None
    installer.go.set()
    await installs.join("llama.cpp").result()
    assert installer.names == ["llama.cpp"]


async def test_close_cancels_what_runs(installs: EngineInstalls) -> None:
    job = installs.join("llama.cpp")
    await installs.close()
    with pytest.raises(InstallCancelled):
        await job.result()


@pytest.fixture
async def daemon(
    run_daemon: DaemonFactory, installer: SlowInstaller, without_llama_cpp: None
) -> AsyncGenerator[RunningDaemon]:
    async with run_daemon() as running:
        running.services.engines._install = installer  # pyright: ignore[reportPrivateUsage]
        yield running


async def test_routes_list_install_and_remove(
    daemon: RunningDaemon, installer: SlowInstaller
) -> None:
    listing = (await daemon.unix.get(ROUTE)).json()
    states = {entry["name"]: entry["state"] for entry in listing["engines"]}
    assert states["llama.cpp"] == "missing"
    installer.go.set()
    body = {"engine": "llama.cpp", "source": "/usb/wheels"}
    events = await daemon.events("POST", f"{ROUTE}/install", json=body)
    assert events[-1][0] == "done"
    assert events[-1][1]["state"] == "installed"
    assert installer.sources[0].index == "/usb/wheels"
    removed = await daemon.unix.delete(f"{ROUTE}/llama.cpp")
    assert removed.status_code == 200
    assert removed.json()["name"] == "llama.cpp"
    again = await daemon.unix.delete(f"{ROUTE}/llama.cpp")
    assert again.status_code == 404


async def test_engine_is_not_removed_while_its_next_version_is_installed(
    daemon: RunningDaemon, installer: SlowInstaller
) -> None:
    engines = daemon.services.engines
    installer.go.set()
    await engines.join("llama.cpp").result()
    installer.go.clear()
    job = engines.join("llama.cpp")
    refused = await daemon.unix.delete(f"{ROUTE}/llama.cpp")
    assert refused.status_code == 409
    assert refused.json()["error"]["message"] == "llama.cpp is being installed."
    installer.go.set()
    await job.result()
    assert (await daemon.unix.delete(f"{ROUTE}/llama.cpp")).status_code == 200


async def test_failed_installation_is_an_error_event(
    daemon: RunningDaemon, installer: SlowInstaller
) -> None:
    installer.error = InstallFailed("The disk is full.", hint="Free some space.")
    installer.go.set()
    events = await daemon.events("POST", f"{ROUTE}/install", json={"engine": "llama.cpp"})
    assert events[-1][0] == "error"
    assert events[-1][1]["error"]["code"] == "install_failed"
    assert events[-1][1]["error"]["hint"] == "Free some space."


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/install", {"engine": "warp"}, 404),
        ("POST", "/install", {"engine": 3}, 400),
        ("POST", "/install", {}, 400),
        ("POST", "/cancel", {"engine": "warp"}, 404),
        ("POST", "/decline", {"engine": "warp"}, 404),
        ("POST", "/check", {"engine": "../x"}, 404),
        ("DELETE", "/warp", None, 404),
    ],
)
async def test_invalid_requests_are_refused(
    daemon: RunningDaemon, method: str, path: str, body: Any, status: int
) -> None:
    answer = await daemon.unix.request(method, f"{ROUTE}{path}", json=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("scope", [Scope.INFERENCE, Scope.READ])
async def test_engines_are_changed_by_admins_only(
    daemon: RunningDaemon, installer: SlowInstaller, scope: Scope
) -> None:
    limits = KeyLimitation(scopes=(scope,))
    _, key = KeyStore(daemon.services.config.paths.keys).create(limitation=limits)
    header = {"authorization": f"Bearer {key}"}
    for path in ("/install", "/cancel", "/decline", "/check", "/llama.cpp"):
        method = "DELETE" if path == "/llama.cpp" else "POST"
        answer = await daemon.tcp.request(
            method, ROUTE + path, json={"engine": "llama.cpp"}, headers=header
        )
        assert answer.status_code == 403, path
        error = msgspec.json.decode(answer.content, type=NativeError).error
        assert error.code == KeyNotAllowed.code
        assert f"it is for '{scope}'" in error.message
        assert error.hint == "`ingle key new --scope admin` creates one that may."
    assert installer.names == []


async def test_declined_offer_is_not_made_again(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingle.backends.hardware.machine import Gpu
    from ingle.daemon.engines import engine_list

    gpu = Gpu(
        name="NVIDIA GeForce RTX 4090",
        vendor="nvidia",
        cuda="13.0",
        memory_total=24 << 30,
        compute_capability=(8, 9),
    )

    def gpus(_cpu: object) -> list[Gpu]:
        return [gpu]

    def nothing_beside(_packages: EnginePackages) -> bool:
        return False

    monkeypatch.setattr(engine_list, "read_gpus", gpus)
    monkeypatch.setattr(engine_list, "_is_beside_ingle", nothing_beside)
    offer = (await daemon.unix.get(ROUTE)).json()["offer"]
    assert offer["name"] == "cuda"
    answer = await daemon.unix.post(f"{ROUTE}/decline", json={"engine": "cuda"})
    assert answer.json()["offer"] is None
    assert (await daemon.unix.get(ROUTE)).json()["offer"] is None
