"""Pulling a model that is already on this machine: found by digest, linked instead of fetched."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.download.pull_progress import PullProgress
from ingle.models.errors import PullCancelled
from ingle.models.places.found_model import Place
from ingle.models.places.model_folders import find_in_plain_folder
from ingle.models.store.model_copies import ModelCopier
from ingle.models.store.model_store import ModelStore

if TYPE_CHECKING:
    from ..conftest import FileServer, MakeStore, ServeHub

MakeLocal = Callable[..., ModelStore]


@pytest.fixture(autouse=True)
def survey_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingle.models.places.local_models._FRESH_SECONDS", -1.0)


@pytest.fixture
def folder(tmp_path: Path, big_model: bytes) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "other-name.gguf").write_bytes(big_model)
    return folder


@pytest.fixture
def with_folder(folder: Path, make_store: MakeStore, big_model: bytes) -> MakeLocal:
    """A store that knows the folder, whose catalog has its file."""

    def make(*urls: str) -> ModelStore:
        plain = make_store(big_model, *urls)
        place = Place("My folder", folder, find_in_plain_folder)
        return ModelStore(plain.root, plain.catalog, [place])

    return make


def test_file_of_another_program_is_used_in_place(
    server: FileServer, with_folder: MakeLocal, folder: Path, big_model: bytes
) -> None:
    store = with_folder(server.serve("/t", big_model))
    reports: list[PullProgress] = []
    model = store.pull("tiny", reports.append)
    assert server.log == []
    assert (model.name, model.place) == ("tiny:1b", "My folder")
    assert model.path == folder / "other-name.gguf"
    assert (model.sampling, model.licence) == ({"temperature": 0.3}, "MIT")
    assert model.sha256 == hashlib.sha256(big_model).hexdigest()
    assert "comparing with a file that is here" in {report.status for report in reports}
    assert store.resolve("tiny") == model
    names = {found.name: found.sha256 for found in store.list()}
    assert names == {"tiny:1b": model.sha256, "other-name:q4_1": model.sha256}  # both names work
    assert store.resolve("other-name").path == model.path

    plan = store.remove("tiny")
    assert (plan.keeps, plan.place, plan.files) == ([str(model.path)], "My folder", [])
    assert plan.frees < 10_000
    assert model.path.read_bytes() == big_model
    assert [found.name for found in store.list()] == ["other-name:q4_1"]


def test_digest_is_cached(
    server: FileServer, with_folder: MakeLocal, folder: Path, big_model: bytes
) -> None:
    store = with_folder(server.serve("/t", big_model))
    store.pull("tiny")
    store.remove("tiny")
    reports: list[PullProgress] = []
    store.pull("tiny", reports.append)
    assert all(report.received in (0, len(big_model)) for report in reports)
    changed = folder / "other-name.gguf"
    store.remove("tiny")
    changed.write_bytes(big_model[:-1] + b"?")
    assert store.pull("tiny").path.parent == store.root / "tiny" / "1b"


def test_comparison_can_be_cancelled(with_folder: MakeLocal) -> None:
    store = with_folder("https://example.com/t")
    with pytest.raises(PullCancelled):
        store.pull("tiny", cancelled=lambda: True)


def test_removed_local_file_is_downloaded(
    server: FileServer, with_folder: MakeLocal, folder: Path, big_model: bytes
) -> None:
    store = with_folder(server.serve("/t", big_model))
    store.pull("tiny").path.unlink()
    assert store.list() == []
    model = store.pull("tiny")
    assert model.path == store.root / "tiny/1b/tiny.gguf"
    assert model.path.read_bytes() == big_model


def test_file_of_the_store_is_linked_under_a_second_name(
    server: FileServer, make_store: MakeStore, serve_hub: ServeHub, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    serve_hub("own/repo", {"m-Q4_1.gguf": big_model})
    first = store.pull("tiny")
    server.log.clear()
    second = store.pull("hf.co/own/repo")
    assert [request.path.partition("?")[0] for request in server.log] == ["/api/models/own/repo"]
    assert second.path.samefile(first.path)
    assert second.sha256 == first.sha256
    plan = store.plan_removal("tiny")
    assert (plan.frees < 10_000, plan.shared_with) == (True, [second.name])
    store.remove("tiny")
    assert second.path.read_bytes() == big_model
    assert store.remove("hf.co/own/repo").frees >= len(big_model)


def test_compare_hashes_files_of_equal_size(
    with_folder: MakeLocal, folder: Path, big_model: bytes
) -> None:
    (folder / "second.gguf").write_bytes(big_model)
    (folder / "third.gguf").write_bytes(big_model[:-1] + b"?")
    (folder / "longer.gguf").write_bytes(big_model + bytes(32))
    store = with_folder("https://example.com/t")
    assert {model.sha256 for model in store.list()} == {None}
    store.compare()
    digests = {model.path.stem: model.sha256 for model in store.list()}
    assert digests["other-name"] == digests["second"] == hashlib.sha256(big_model).hexdigest()
    assert digests["third"] not in (None, digests["second"])
    assert digests["longer"] is None


def test_added_file_is_compared_with_others_and_not_downloaded_again(
    server: FileServer, make_store: MakeStore, folder: Path, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    (folder / "third.gguf").write_bytes(big_model[:-1] + b"?")
    for file in ("other-name", "third"):
        assert ModelCopier(store).add(folder / f"{file}.gguf", file).sha256 is None
    pulled = store.pull("tiny")
    assert server.log == []
    assert pulled.path == folder / "other-name.gguf"
    digest = hashlib.sha256(big_model).hexdigest()
    assert pulled.sha256 == digest
    assert store.resolve("other-name").sha256 == digest
    store.compare()
    digests = {model.path.stem: model.sha256 for model in store.list()}
    assert digests["other-name"] == digest
    assert digests["third"] not in (None, digest)
