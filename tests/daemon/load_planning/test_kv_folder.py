"""The KV store folder: keys per model, limits, private requests, removal and memory trimming."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.daemon.load_planning.kv_folder import kv_store_spec, remove_stored_kv, weights_digest
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.models.metadata.stored_model import StoredModel
from tests.harness.local_backend import LocalBackend

if TYPE_CHECKING:
    from ..conftest import ManagerHarness, RunningDaemon

    MakeManager = Callable[..., ManagerHarness]
    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

PROMPT = "Once upon a time there was a lighthouse. " * 8  # shorter prompts are not saved
GIB = 2**30


def make_model(path: Path, sha256: str | None) -> StoredModel:
    return StoredModel(
        name="m",
        path=path,
        size=4,
        sha256=sha256,
        licence="",
        description="",
        parameters=1,
        quantization="",
        architecture="llama",
        context=1024,
        chat=True,
        sampling={},
        source="test",
    )


def test_weights_digest_of_a_pulled_model_is_its_sha256(tmp_path: Path) -> None:
    assert weights_digest(make_model(tmp_path / "gone.gguf", "a1" * 32)) == "a1" * 32


@pytest.mark.parametrize("sha256", [None, "../../somewhere", "a1" * 31, "A1" * 32])
def test_weights_digest_of_other_files_depends_on_their_state(
    tmp_path: Path, sha256: str | None
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    model = make_model(path, sha256)
    first = weights_digest(model)
    assert len(first) == 64
    assert first == weights_digest(model)
    path.write_bytes(b"GGUF and more")
    assert weights_digest(model) != first


def test_kv_store_limits_come_from_the_settings(ingle_home: Path, tmp_path: Path) -> None:
    paths = find_paths({"INGLE_HOME": str(ingle_home)})
    config = Config(paths=paths, kv_disk=5, kv_memory=2**39)
    spec = kv_store_spec(config, make_model(tmp_path / "x", "a1" * 32))
    assert spec is not None
    assert (spec.folder, spec.model, spec.disk_bytes) == (str(paths.kv), "a1" * 32, 5)
    assert spec.memory_bytes == psutil.virtual_memory().total // 8
    small = dataclasses.replace(config, kv_memory=7)
    spec = kv_store_spec(small, make_model(tmp_path / "x", "a1" * 32))
    assert spec is not None
    assert spec.memory_bytes == 7
    assert kv_store_spec(config, make_model(tmp_path / "gone", None)) is None


def test_remove_stored_kv_returns_freed_bytes(ingle_home: Path) -> None:
    paths = find_paths({"INGLE_HOME": str(ingle_home)})
    for model, size in (("a1" * 32, 100), ("b2" * 32, 50)):
        (paths.kv / model).mkdir(parents=True)
        (paths.kv / model / "x.kv").write_bytes(bytes(size))
    assert remove_stored_kv(paths, "a1" * 32) == 100
    assert remove_stored_kv(paths, "a1" * 32) == 0
    assert [folder.name for folder in paths.kv.iterdir()] == ["b2" * 32]


def backend_with_kv_store(home: Path) -> Callable[[LoadSpec], LocalBackend]:
    """Create scripted models with a KV store in the home's folder."""

    def create(spec: LoadSpec) -> LocalBackend:
        store = KVStoreSpec(
            folder=str(home / "state/kv"), model="0" * 64, disk_bytes=GIB, memory_bytes=0
        )
        return LocalBackend(msgspec.structs.replace(spec, kv_store=store))

    return create


async def complete(daemon: RunningDaemon, prompt: str, **fields: Any) -> int:
    """Run a completion; returns the number of cached tokens."""
    headers = fields.pop("headers", {})
    body = {"model": "echo:1", "prompt": prompt} | fields
    answer = await daemon.tcp.post("/v1/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def chunks(home: Path) -> list[Path]:
    return sorted(home.glob("state/kv/*/*.kv"))


async def test_stored_kv_is_restored_after_unloading(
    run_daemon: DaemonFactory, ingle_home: Path
) -> None:
    async with run_daemon(create_backend=backend_with_kv_store(ingle_home)) as daemon:
        assert await complete(daemon, PROMPT) == 0
        await daemon.unix.post("/ingle/v1/unload", json={})
        assert chunks(ingle_home)
        assert await complete(daemon, PROMPT + "And then?") >= len(PROMPT) - 32
        await daemon.until(lambda: daemon.services.manager.loaded()[0].kv_disk_bytes > 0)
        (model,) = (await daemon.unix.get("/ingle/v1/status")).json()["models"]
        assert model["restored_tokens"] >= len(PROMPT) - 32
        assert model["kv_disk_bytes"] == sum(f.stat().st_size for f in chunks(ingle_home))
        assert model["kv_memory_bytes"] == 0


async def test_kv_is_stored_when_the_daemon_stops(
    run_daemon: DaemonFactory, ingle_home: Path
) -> None:
    async with run_daemon(create_backend=backend_with_kv_store(ingle_home)) as daemon:
        await complete(daemon, PROMPT)
        await daemon.services.manager.close(5.0)
    assert chunks(ingle_home)


@pytest.mark.parametrize(
    ("fields", "saved"),
    [
        ({"ingle": {"private": True}}, False),
        ({"headers": {"Ingle-Private": "true"}}, False),
        ({"headers": {"ingle-private": "1"}}, False),
        ({"headers": {"Ingle-Private": "please"}}, False),
        ({"ingle": {"private": False}, "headers": {"Ingle-Private": "true"}}, False),
        ({"ingle": {"private": True}, "headers": {"Ingle-Private": "false"}}, False),
        ({"ingle": {"private": False, "conversation": "tax"}}, True),
        ({"ingle": {}, "headers": {"Ingle-Private": "False"}}, True),
        ({"ingle": None}, True),
    ],
)
async def test_kv_of_private_requests_is_not_stored(
    run_daemon: DaemonFactory, ingle_home: Path, fields: dict[str, Any], saved: bool
) -> None:
    async with run_daemon(create_backend=backend_with_kv_store(ingle_home)) as daemon:
        await complete(daemon, PROMPT, **fields)
        assert await complete(daemon, PROMPT + "!", **fields) == len(PROMPT) + 1, (
            "the KV cache of the engine is still used"
        )
        await daemon.unix.post("/ingle/v1/unload", json={})
        assert bool(chunks(ingle_home)) is saved


@pytest.mark.parametrize(
    ("fields", "private"),
    [
        ({"private": True}, True),
        ({"private": False}, False),
        ({"ingle": {"private": True}}, True),
        ({"ingle": {"priority": "batch"}, "private": True}, True),
        ({"ingle": {"private": False}}, False),
    ],
)
async def test_kv_of_private_generations_is_not_stored(
    run_daemon: DaemonFactory, ingle_home: Path, fields: dict[str, Any], private: bool
) -> None:
    async with run_daemon(create_backend=backend_with_kv_store(ingle_home)) as daemon:
        body = {"prompt": PROMPT, **fields}
        started = (await daemon.unix.post("/ingle/v1/generations", json=body)).json()
        await daemon.events("GET", f"/ingle/v1/generations/{started['id']}/events")
        await daemon.unix.post("/ingle/v1/unload", json={})
        assert bool(chunks(ingle_home)) is not private


@pytest.mark.parametrize("ingle", [{"private": "yes"}, {"conversation": "x" * 201}, 7])
async def test_invalid_ingle_options_are_rejected(daemon: RunningDaemon, ingle: object) -> None:
    body = {"model": "echo:1", "prompt": PROMPT, "ingle": ingle}
    answer = await daemon.tcp.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert "ingle" in answer.json()["error"]["message"]


async def test_removing_a_model_removes_its_stored_kv(
    run_daemon: DaemonFactory, ingle_home: Path
) -> None:
    async with run_daemon(create_backend=backend_with_kv_store(ingle_home)) as daemon:
        await complete(daemon, PROMPT)
        removed = (await daemon.unix.delete("/ingle/v1/models/echo:1")).json()
        assert removed["freed"] > 1000, "the model itself is four bytes"
        assert not chunks(ingle_home)


async def test_kv_memory_is_trimmed_before_models_are_evicted(make_manager: MakeManager) -> None:
    harness = make_manager()
    async with harness.manager.lease("a"):
        pass
    (first,) = harness.backends
    first.gauges = msgspec.structs.replace(first.gauges, kv_memory_bytes=9 * GIB)
    harness.memory["available"] = 2 * GIB

    async def release_memory() -> None:
        await harness.until(lambda: first.trims > 0)
        harness.memory["available"] = 9 * GIB

    releasing = asyncio.create_task(release_memory())
    async with harness.manager.lease("b"):
        assert harness.states() == {"a": "ready", "b": "ready"}
    await releasing
    assert first.trims == 1


async def test_kv_memory_is_not_trimmed_while_memory_is_free(make_manager: MakeManager) -> None:
    harness = make_manager()
    async with harness.manager.lease("a"):
        pass
    (first,) = harness.backends
    first.gauges = msgspec.structs.replace(first.gauges, kv_memory_bytes=GIB)
    async with harness.manager.lease("b"):
        pass
    assert first.trims == 0
