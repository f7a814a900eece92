from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import ModelNotFound
from ingle.models.metadata.description_cache import DescriptionCache
from ingle.models.places.found_model import FoundModel, Place
from ingle.models.places.local_models import LocalModels
from ingle.models.places.model_folders import find_in_lm_studio, find_in_plain_folder
from ingle.models.places.ollama import find_in_ollama
from ingle.models.store.model_store import ModelStore

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from ..conftest import FileServer, MakeStore

Put = Callable[..., Path]


@pytest.fixture(autouse=True)
def survey_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingle.models.places.local_models._FRESH_SECONDS", -1.0)


def plain(folder: Path) -> Place:
    return Place(str(folder), folder, find_in_plain_folder)


def store_with(tmp_path: Path, *places: Place) -> ModelStore:
    return ModelStore(tmp_path / "store", Catalog.load(), places)


def test_models_of_other_programs_are_listed_and_resolved(
    tmp_path: Path, in_ollama: Put, model: bytes
) -> None:
    folder = tmp_path / "ollama"
    in_ollama(folder, "registry.ollama.ai/library/Tiny/latest", model=model, params=b'{"top_k": 7}')
    in_ollama(folder, "registry.ollama.ai/me/other/v1", model=model[:-1] + b"?")
    store = store_with(tmp_path, Place("Ollama", folder, find_in_ollama))
    first, second = store.list()
    assert (first.name, first.place, first.sampling) == ("Tiny:latest", "Ollama", {"top_k": 7.0})
    assert first.architecture == "llama"
    for name in ("tiny", "Tiny", "tiny:latest"):
        assert store.resolve(name) == first
    assert store.resolve("me/other:v1") == store.resolve("ME/Other") == second
    assert store.own() == []
    with pytest.raises(ModelNotFound, match="no file or folder me/third"):
        store.resolve("me/third")


@pytest.mark.skipif(sys.platform != "linux", reason="only there names may be any bytes")
def test_model_file_name_that_is_not_utf8_is_reported(tmp_path: Path, model: bytes) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in (b"bad\xff\xfe.gguf", b"good.gguf"):
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_bytes(model)
    Path(os.fsdecode(bytes(folder) + b"/gone\xff.gguf")).symlink_to("nowhere")
    places = LocalModels([plain(folder)], DescriptionCache(tmp_path / "cache.json"))
    survey = places.survey()
    assert [entry.path.name for entry in survey.models] == ["good.gguf"]
    assert [Path(entry.path).name for entry in survey.unusable] == [
        r"bad\udcff\udcfe.gguf",
        r"gone\udcff.gguf",
    ]
    assert "not UTF-8" in survey.unusable[0].reason
    assert msgspec.json.encode(survey.unusable)
    assert (tmp_path / "cache.json").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only there names may be any bytes")
def test_other_file_name_that_is_not_utf8_can_be_cached(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    Path(os.fsdecode(bytes(folder) + b"/note\xff.txt")).write_text("")
    cache = DescriptionCache(tmp_path / "cache.json")
    with pytest.raises(ModelNotFound, match="folder without a model"):
        cache.describe(folder)
    cache.save()
    assert b"udcff" in (tmp_path / "cache.json").read_bytes()


def test_name_clashes_are_resolved_by_place(tmp_path: Path, model: bytes) -> None:
    for place in ("a", "b"):
        for name in ("x/tiny-Q4_0.gguf", "y/Tiny.Q4_0.gguf"):
            path = tmp_path / place / name
            path.parent.mkdir(parents=True)
            path.write_bytes(model)
    store = store_with(tmp_path, plain(tmp_path / "a"), plain(tmp_path / "b"))
    names = [found.name for found in store.list()]
    last = str(tmp_path / "b/y/Tiny.Q4_0.gguf")
    assert names == ["tiny:q4_0", "tiny:q4_0@a", "tiny:q4_0@b", last]
    assert [store.resolve(name).name for name in names] == names


def test_models_of_the_store_keep_their_names(
    server: FileServer, make_store: MakeStore, big_model: bytes, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "tiny-1b.gguf").write_bytes(big_model)
    pulled = make_store(big_model, server.serve("/t", big_model)).pull("tiny")

    def find(path: Path) -> Iterable[FoundModel]:
        return [
            FoundModel("tiny:1b", folder / "tiny-1b.gguf"),
            FoundModel("again", pulled.path),  # a folder of models may be the store itself
        ]

    store = ModelStore(tmp_path / "store", Catalog.load(), [Place("Mine", folder, find)])
    assert [found.name for found in store.list()] == ["tiny:1b", "tiny:1b@mine"]
    assert store.resolve("tiny").path == pulled.path
    assert store.resolve("tiny:1b@mine").path == folder / "tiny-1b.gguf"


def test_file_in_two_places_is_one_model(tmp_path: Path, model: bytes) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a/tiny.gguf").write_bytes(model)
    (tmp_path / "b/other.gguf").symlink_to(tmp_path / "a/tiny.gguf")
    store = store_with(tmp_path, plain(tmp_path / "a"), plain(tmp_path / "b"))
    assert [found.name for found in store.list()] == ["tiny:q4_1"]


def test_unusable_files_are_reported_once(
    tmp_path: Path, model: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "lm"
    for name in ("good.gguf", "cut.gguf", "text.gguf"):
        path = folder / "own" / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(model)
    (folder / "own/repo/cut.gguf").write_bytes(model[:-1])
    (folder / "own/repo/text.gguf").write_bytes(b"hello")
    (folder / "own/repo/gone.gguf").symlink_to("/no/where")
    os.mkfifo(folder / "own/repo/pipe.gguf")
    store = store_with(tmp_path, Place("LM Studio", folder, find_in_lm_studio))
    with caplog.at_level(logging.INFO, "ingle.models.places.local_models"):
        assert [found.name for found in store.list()] == ["hf.co/own/repo:GOOD"]
        reasons = {Path(entry.path).name: entry.reason for entry in store.unusable()}
    assert "truncated" in reasons["cut.gguf"]
    assert "not a GGUF file" in reasons["text.gguf"]
    assert "link to a file that is gone" in reasons["gone.gguf"]
    assert "not a regular file" in reasons["pipe.gguf"]
    assert len(caplog.records) == 4


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_reported(tmp_path: Path, model: bytes) -> None:
    path = tmp_path / "m" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes(model)
    path.chmod(0)
    (entry,) = store_with(tmp_path, plain(path.parent)).unusable()
    assert entry.reason == "it may not be read"


def test_unreadable_place_is_reported(tmp_path: Path) -> None:
    def find(folder: Path) -> Iterable[FoundModel]:
        raise PermissionError(13, "Permission denied")

    (entry,) = store_with(tmp_path, Place("Ollama", tmp_path, find)).unusable()
    assert (entry.place, entry.reason) == ("Ollama", "Permission denied")


def test_file_is_read_again_only_after_a_change(
    tmp_path: Path, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingle.models.gguf import gguf_header

    read: list[Path] = []
    real = gguf_header.read_header

    def counting(path: Path) -> object:
        read.append(path)
        return real(path)

    monkeypatch.setattr(gguf_header, "read_header", counting)
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(model)
    (folder / "bad.gguf").write_bytes(b"x")
    local = LocalModels([plain(folder)], DescriptionCache())
    assert local.survey() == local.survey()
    assert len(read) == 2
    os.utime(folder / "tiny.gguf", (1, 1))
    local.survey()
    assert len(read) == 3


def test_catalog_settings_apply_to_files_of_other_programs(
    tmp_path: Path, in_ollama: Put, model: bytes, make_store: MakeStore
) -> None:
    folder = tmp_path / "ollama"
    in_ollama(folder, "registry.ollama.ai/library/small/latest", model=model)
    known = make_store(model, "https://example.com/t")
    store = ModelStore(known.root, known.catalog, [Place("Ollama", folder, find_in_ollama)])
    (found,) = store.list()
    assert (found.licence, found.sampling) == ("MIT", {"temperature": 0.3})


def test_control_characters_are_removed_from_names(tmp_path: Path, model: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(model)

    def find(folder: Path) -> Iterable[FoundModel]:
        return [
            FoundModel("evil\x1b[2J:1b", path),
            FoundModel("lost\x07:1b", path, problem="it is gone"),
        ]

    store = store_with(tmp_path, Place("Ollama", tmp_path, find))
    assert [found.name for found in store.list()] == ["evil[2J:1b"]
    assert store.resolve("evil[2J:1b").path == path
