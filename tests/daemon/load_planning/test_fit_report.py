"""`GET /ingle/v1/fit`: whether a model would fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingle.models.catalog import Catalog
from ingle.models.download.model_download import WantedModel
from ingle.models.download.remote_model import RemoteModel
from ingle.models.gguf.gguf_header import read_header

from ..conftest import RunningDaemon


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
