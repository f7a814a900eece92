"""Pulling models of several files from a fake hub: shards, resuming, cancelling, verification."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.catalog import Catalog
from ingle.models.download.pull_progress import PullProgress
from ingle.models.errors import (
    DiskFull,
    HashMismatch,
    InvalidModel,
    PullCancelled,
    SourceUnavailable,
    UnsupportedModel,
)
from ingle.models.gguf.gguf_header import read_header
from ingle.models.store.model_store import ModelStore

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from ..conftest import FileServer, ServeHub

REPO = "own/repo"
RESOLVE = f"/{REPO}/resolve/{'c' * 40}"
Parts = Callable[..., list[Path]]


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_wait(seconds: float, cancelled: object) -> None:
        return

    monkeypatch.setattr("ingle.models.sources.http_source._wait", no_wait)


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", Catalog.load())


@pytest.fixture
def parts(tiny_parts: Parts) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in tiny_parts()}


@pytest.fixture
def folder(make_folder: Callable[..., Path]) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in make_folder("source").iterdir()}


def requested_files(server: FileServer) -> list[str]:
    """The files that were asked for."""
    return [r.path.rpartition("/")[2] for r in server.log if r.path.startswith(RESOLVE)]


def names_in(store: ModelStore) -> set[str]:
    found = (path for path in store.root.rglob("*") if path.is_file())
    return {path.name for path in found if ".locks" not in path.parts}


def test_gguf_shards_are_one_model(
    server: FileServer, serve_hub: ServeHub, store: ModelStore, parts: dict[str, bytes]
) -> None:
    serve_hub(REPO, parts)
    reports: list[PullProgress] = []
    model = store.pull(f"hf.co/{REPO}", reports.append)
    total = sum(map(len, parts.values()))
    assert model.name == f"hf.co/{REPO}:Q4_1"
    assert (model.path.name, model.size, model.licence) == (min(parts), total, "apache-2.0")
    assert read_header(model.path).parameters == model.parameters
    assert requested_files(server) == sorted(parts)
    received = [report.received for report in reports if report.status == "downloading"]
    assert received == sorted(received)
    assert (reports[-1].received, reports[-1].total) == (total, total)
    assert store.list() == [model]
    (model.path.parent / max(parts)).write_bytes(b"short")
    assert store.list() == []
    assert store.pull(f"hf.co/{REPO}").sha256 == model.sha256
    assert store.remove(model.name).frees >= total
    assert names_in(store) == set()


def test_each_shard_is_resumed(
    server: FileServer, serve_hub: ServeHub, store: ModelStore, parts: dict[str, bytes]
) -> None:
    serve_hub(REPO, parts)
    first, second, *_ = sorted(parts)
    server.serve(f"{RESOLVE}/{second}", parts[second], cuts=[1000, 0, 0, 0, 0, 0])
    with pytest.raises(SourceUnavailable) as caught:
        store.pull(f"hf.co/{REPO}")
    assert "continues where it stopped" in (caught.value.hint or "")
    assert store.list() == []
    server.serve(f"{RESOLVE}/{second}", parts[second])
    server.log.clear()
    model = store.pull(f"hf.co/{REPO}")
    assert requested_files(server) == sorted(parts)[1:]
    assert [r.range for r in server.log if second in r.path] == ["bytes=1000-"]
    for name, content in parts.items():
        assert (model.path.parent / name).read_bytes() == content
    assert first == model.path.name


def test_cancelled_pull_is_resumed(
    server: FileServer, serve_hub: ServeHub, store: ModelStore, parts: dict[str, bytes]
) -> None:
    serve_hub(REPO, parts)

    def cancelled() -> bool:
        return len(requested_files(server)) >= 2

    with pytest.raises(PullCancelled):
        store.pull(f"hf.co/{REPO}", cancelled=cancelled)
    assert store.pull(f"hf.co/{REPO}").size == sum(map(len, parts.values()))


def test_safetensors_repository(
    server: FileServer, serve_hub: ServeHub, store: ModelStore, folder: dict[str, bytes]
) -> None:
    extra = {"modeling_evil.py": b"import os", "pytorch_model.bin": b"pickle", "README.txt": b""}
    serve_hub(REPO, folder | extra)
    model = store.pull(f"hf.co/{REPO}")
    assert (model.name, model.licence) == (f"hf.co/{REPO}:SAFETENSORS", "mit")
    assert model.path == store.root / "hf.co/own/repo/SAFETENSORS"
    assert (model.architecture, model.quantization) == ("llama", "BF16")
    assert {path.name for path in model.path.iterdir()} == {*folder, "manifest.json"}
    assert not set(requested_files(server)) & set(extra)
    assert requested_files(server)[0] == "config.json"
    assert store.resolve(f"hf.co/{REPO}") == model
    assert store.pull(f"hf.co/{REPO}:safetensors") == model
    alike = store.resolve(str(model.path))
    assert (alike.sha256, alike.parameters) == (model.sha256, model.parameters)


def test_unsupported_family_is_rejected_after_its_config(
    server: FileServer, serve_hub: ServeHub, store: ModelStore, folder: dict[str, bytes]
) -> None:
    settings = json.loads(folder["config.json"]) | {"model_type": "mamba9"}
    serve_hub(REPO, folder | {"config.json": json.dumps(settings).encode()})
    with pytest.raises(UnsupportedModel, match="mamba9"):
        store.pull(f"hf.co/{REPO}")
    assert requested_files(server) == ["config.json"]
    assert names_in(store) == set()


@pytest.mark.parametrize("which", ["first", "last"])
def test_digest_mismatch_is_rejected(
    server: FileServer,
    serve_hub: ServeHub,
    store: ModelStore,
    parts: dict[str, bytes],
    which: str,
) -> None:
    serve_hub(REPO, parts)
    name = min(parts) if which == "first" else max(parts)
    server.serve(f"{RESOLVE}/{name}", parts[name][:-1] + b"?")
    with pytest.raises(HashMismatch, match="not what it should be"):
        store.pull(f"hf.co/{REPO}")
    assert names_in(store) == set()


def test_shards_of_different_models_are_rejected(
    serve_hub: ServeHub, store: ModelStore, parts: dict[str, bytes]
) -> None:
    first, second, *_ = sorted(parts)
    serve_hub(REPO, parts | {second: parts[first]})
    with pytest.raises(InvalidModel, match="does not say that it is part 2"):
        store.pull(f"hf.co/{REPO}")
    assert names_in(store) == set()


def test_invalid_safetensors_are_rejected(
    serve_hub: ServeHub, store: ModelStore, folder: dict[str, bytes]
) -> None:
    name = min(name for name in folder if name.endswith(".safetensors"))
    serve_hub(REPO, folder | {name: b"\x80\x04pickle"})
    with pytest.raises(InvalidModel):
        store.pull(f"hf.co/{REPO}")
    assert names_in(store) == set()


def test_full_disk_is_reported_before_the_first_file(
    server: FileServer,
    serve_hub: ServeHub,
    store: ModelStore,
    parts: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from types import SimpleNamespace

    serve_hub(REPO, parts)
    needed = (32 << 20) + sum(map(len, parts.values()))

    def disk_usage(path: Path) -> SimpleNamespace:
        return SimpleNamespace(total=1, used=1, free=needed - 1)

    monkeypatch.setattr("shutil.disk_usage", disk_usage)
    with pytest.raises(DiskFull):
        store.pull(f"hf.co/{REPO}")
    assert requested_files(server) == []


def test_digest_of_several_files_differs_from_each_of_them(
    serve_hub: ServeHub, store: ModelStore, parts: dict[str, bytes]
) -> None:
    serve_hub(REPO, parts)
    model = store.pull(f"hf.co/{REPO}")
    single = [hashlib.sha256(content).hexdigest() for content in parts.values()]
    assert model.sha256 not in single
    assert len(model.sha256 or "") == 64
