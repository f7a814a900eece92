"""`GET /ingle/v1/fit`: whether a model would fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingle.backends.hardware.machine import Gpu
from ingle.backends.packages.engine_packages import EnginePackages
from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.selection.engine_facts import EngineFacts
from ingle.daemon.engines import engine_list
from ingle.models.catalog import Catalog
from ingle.models.download.model_download import WantedModel
from ingle.models.download.remote_model import RemoteModel
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.gguf.gguf_header import read_header
from ingle.models.gguf.projector import projector_bytes
from ingle.models.metadata.stored_model import StoredModel
from tests.harness.small_projector import write_small_projector

from ..conftest import DaemonFactory, RunningDaemon

GB = 10**9


async def report(daemon: RunningDaemon, status: int = 200, **query: Any) -> dict[str, Any]:
    answer = await daemon.unix.get("/ingle/v1/fit", params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.model
async def test_fit_of_a_local_file(daemon: RunningDaemon, smollm2_path: Path) -> None:
    found = await report(daemon, model=str(smollm2_path))
    assert found["installed"]
    assert found["fits"]
    assert found["layers"] == 30
    assert found["context"] == found["longest_context"] == 8192
    assert found["host"]["kv"] == 8192 * 23040
    assert found["needs"]["host"] == found["host"]["total"]
    assert "context 8,192" in found["reason"]
    shorter = await report(daemon, model=str(smollm2_path), context=1024)
    assert shorter["context"] == 1024
    assert shorter["needs"]["host"] < found["needs"]["host"]


@pytest.mark.model
async def test_fit_counts_the_draft_model(
    run_daemon: DaemonFactory, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_daemon(prepares_files=True, speculation="draft") as daemon:
        name = str(smollm2_path)
        alone = await report(daemon, model=name, context=512)
        assert (alone["draft"], alone["draft_needs"]["host"]) == ("", 0)

        def find_draft(model: StoredModel) -> StoredModel:
            return model

        monkeypatch.setattr(daemon.services.planner, "_find_draft", find_draft)
        both = await report(daemon, model=name, context=512)
        assert (both["draft"], both["draft_needs"]["host"] > 0) == (name, True)
        assert both["needs"]["host"] == alone["needs"]["host"] + both["draft_needs"]["host"]


async def test_fit_counts_the_projector(run_daemon: DaemonFactory, tmp_path: Path) -> None:
    from gpu.small_llama import write_small_llama

    path = write_small_llama(tmp_path / "small.gguf")
    async with run_daemon(prepares_files=True) as daemon:
        alone = await report(daemon, model=str(path), context=512)
        projector = write_small_projector(tmp_path / "mmproj-small.gguf", "gemma3")
        both = await report(daemon, model=str(path), context=512)
    assert both["needs"]["host"] == alone["needs"]["host"] + projector_bytes(projector)
    assert both["engine"] == "llama_cpp"


async def test_fit_of_a_catalog_model_that_is_not_installed(daemon: RunningDaemon) -> None:
    entry = next(e for e in Catalog.load().entries if e.full_name == "qwen2.5-coder:1.5b")
    found = await report(daemon, model="qwen2.5-coder:1.5b")
    assert (found["installed"], found["size"]) == (False, entry.size)
    assert found["fetched"] == 0
    assert 0 <= found["context"] <= found["trained_context"] == entry.context


@pytest.mark.model
async def test_fit_of_a_catalog_model_without_a_shape_reads_the_remote_header(
    daemon: RunningDaemon, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = next(entry for entry in Catalog.load().entries if entry.shape is None)
    requested: list[WantedModel] = []

    def read_header_only(wanted: WantedModel) -> RemoteModel:
        requested.append(wanted)
        return RemoteModel(wanted.name, wanted.size, "", read_header(smollm2_path), 7)

    monkeypatch.setattr("ingle.models.download.remote_model.read_remote_model", read_header_only)
    found = await report(daemon, model=entry.full_name)
    assert [wanted.name for wanted in requested] == [entry.full_name]
    assert (found["size"], found["licence"]) == (entry.size, entry.licence)
    assert (found["installed"], found["fetched"]) == (False, 7)


async def test_offered_engine_counts_until_it_is_declined(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu(
        name="NVIDIA GeForce RTX 4090",
        vendor="nvidia",
        cuda="13.0",
        memory_total=24 * GB,
        compute_capability=(8, 9),
    )
    own = CudaAvailability(gpu_memory=24 * GB, capability=(8, 9))
    name = "qwen2.5-coder:1.5b"

    def gpus(_cpu: object) -> list[Gpu]:
        return [gpu]

    def nothing_beside(_packages: EnginePackages) -> bool:
        return False

    monkeypatch.setattr(engine_list, "read_gpus", gpus)
    monkeypatch.setattr(engine_list, "_is_beside_ingle", nothing_beside)
    async with run_daemon(prepares_files=True) as daemon:
        planner, manager = daemon.services.planner, daemon.services.manager
        monkeypatch.setattr(planner, "facts", EngineFacts(own=own, gpu_name=gpu.name))
        monkeypatch.setattr(manager, "available", lambda: MemoryNeeds(64 * GB, 23 * GB))

        async def forecast() -> tuple[str, str]:
            listed = (await daemon.unix.get("/ingle/v1/models")).json()["models"]
            fit = next(entry["fit"] for entry in listed if entry["name"] == name)
            return fit["device"], fit["needs_engine"]

        found = await report(daemon, model=name)
        assert found["reason"].startswith("llama.cpp on the CPU, since ")
        assert found["with_engine"].startswith(
            "With ingle's own engine (`ingle engine install cuda`): all 28 layers on the NVIDIA "
        )
        assert await forecast() == ("cuda", "cuda")
        await daemon.unix.post("/ingle/v1/engines/decline", json={"engine": "cuda"})
        assert await forecast() == ("cpu", "")
        assert (await report(daemon, model=name))["with_engine"] == ""


async def test_offline_fit_of_a_remote_model_is_refused(daemon: RunningDaemon) -> None:
    daemon.services.store.offline = True
    entry = next(entry for entry in Catalog.load().entries if entry.shape is None)
    for name in (entry.full_name, "hf.co/owner/repository:Q4_K_M"):
        refused = await report(daemon, model=name, status=503)
        assert "nothing was asked" in refused["error"]["message"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 400),
        ({"model": "nosuch"}, 404),
        ({"model": "smollm2", "context": "many"}, 400),
        ({"model": "smollm2", "context": "0"}, 400),
    ],
)
async def test_invalid_queries_are_rejected(
    daemon: RunningDaemon, query: dict[str, str], status: int
) -> None:
    refused = await report(daemon, **query, status=status)
    assert refused["error"]["message"]
