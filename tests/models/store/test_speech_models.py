"""Models that recognise speech: pulled, listed, found in folders, and told from others."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import InvalidModel, UnsupportedModel
from ingle.models.metadata.description_cache import describe_model
from ingle.models.model_task import ModelTask
from ingle.models.places.model_folders import find_in_hugging_face_cache, find_in_plain_folder
from ingle.models.sources.download_source import RemoteFile
from ingle.models.sources.hub_source import choose_model
from ingle.models.store.model_store import ModelStore
from tests.harness.whisper_files import WHISPER_FILES, write_whisper_files

if TYPE_CHECKING:
    from ..conftest import FileServer, MakeStore


def serve_repository(server: FileServer, files: dict[str, bytes]) -> None:
    siblings = [
        {
            "rfilename": name,
            "size": len(content),
            "lfs": {
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "pointerSize": 1,
            },
        }
        for name, content in files.items()
    ]
    info = {"id": "own/whisper", "siblings": siblings, "tags": [], "private": False}
    json_type = {"Content-Type": "application/json"}
    server.serve("/api/models/own/whisper", json.dumps(info).encode(), headers=json_type)
    for name, content in files.items():
        server.serve(f"/own/whisper/resolve/main/{name}", content)


def test_speech_model_is_pulled_from_the_hub(
    server: FileServer, make_store: MakeStore, big_model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(big_model, "https://fabrikam.org/t")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        server.address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    serve_repository(server, WHISPER_FILES | {"README.md": b"# Whisper"})
    model = store.pull("hf.co/own/whisper")
    assert model.name == "hf.co/own/whisper:CTRANSLATE2"
    assert model.task is ModelTask.TRANSCRIBE
    assert {path.name for path in model.path.iterdir()} == {*WHISPER_FILES, "manifest.json"}
    assert store.list() == [model]
    assert store.resolve("hf.co/own/whisper") == store.pull(model.name) == model
    store.remove("hf.co/own/whisper")
    assert store.list() == []


def test_other_weights_of_ctranslate2_are_no_speech_model(
    server: FileServer, make_store: MakeStore, big_model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(big_model, "https://fabrikam.org/t")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        server.address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    other = b"\6\0\0\0\x10\0TransformerSpec\0" + b"weights" * 20
    serve_repository(server, WHISPER_FILES | {"model.bin": other})
    with pytest.raises(InvalidModel, match="is no Whisper model"):
        store.pull("hf.co/own/whisper")
    assert store.list() == []
    with pytest.raises(UnsupportedModel, match="pickle"):
        choose_model("o/r", [RemoteFile(name) for name in ("config.json", "model.bin")], None)


def test_folder_of_a_speech_model_is_a_model(tmp_path: Path) -> None:
    folder = write_whisper_files(tmp_path / "base")
    model = describe_model(folder)
    assert (model.task, model.architecture) == (ModelTask.TRANSCRIBE, "whisper")
    assert model.size == sum(map(len, WHISPER_FILES.values()))
    assert [found.path for found in find_in_plain_folder(tmp_path)] == [folder]
    (folder / "model.bin").write_bytes(b"\6")
    with pytest.raises(InvalidModel, match="is no Whisper model"):
        describe_model(folder)


def test_all_files_of_a_speech_model_are_removed(tmp_path: Path) -> None:
    folder = write_whisper_files(tmp_path / "whisper")
    (folder / "notes.txt").touch()
    plan = ModelStore(tmp_path / "store", Catalog.load()).remove(str(folder), delete_file=True)
    assert {Path(file).name for file in plan.files} == set(WHISPER_FILES)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_speech_model_in_the_hub_cache_has_the_tag_of_its_format(tmp_path: Path) -> None:
    write_whisper_files(tmp_path / "models--own--whisper" / "snapshots" / "1")
    (found,) = find_in_hugging_face_cache(tmp_path)
    assert found.name == "hf.co/own/whisper:CTRANSLATE2"
