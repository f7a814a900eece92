from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import DiskUnusable, NotInStore
from ingle.models.places.found_model import Place
from ingle.models.places.model_folders import find_in_hugging_face_cache, find_in_plain_folder
from ingle.models.places.ollama import find_in_ollama
from ingle.models.store.model_removal import delete_files
from ingle.models.store.model_store import ModelStore

Put = Callable[..., Path]


def store_with(tmp_path: Path, place: Place) -> ModelStore:
    return ModelStore(tmp_path / "store", Catalog.load(), [place])


def test_file_that_cannot_be_deleted_is_not_said_to_belong_to_others(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskUnusable, match="cannot be deleted"):
        delete_files([tmp_path / "file" / "within"])


def test_files_of_other_programs_are_removed_only_on_request(
    tmp_path: Path, tiny_parts: Callable[..., list[Path]]
) -> None:
    paths = tiny_parts(tmp_path / "mine")
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    store = store_with(tmp_path, Place("Mine", tmp_path / "mine", find_in_plain_folder))
    for reference in ("tiny:q4_1", str(paths[0])):
        with pytest.raises(NotInStore) as caught:
            store.remove(reference)
        assert "--delete-file" in (caught.value.hint or "")
    plan = store.plan_removal("tiny", delete_file=True)
    assert plan.files == [str(path) for path in paths]
    assert plan.frees == sum(path.stat().st_size for path in paths)
    assert all(path.exists() for path in paths)
    assert store.remove("tiny", delete_file=True) == plan
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    assert store.list() == []


def test_removing_a_folder_keeps_other_files(
    tmp_path: Path, make_folder: Callable[..., Path]
) -> None:
    folder = make_folder("mine")
    (folder / "diary.txt").write_text("dear")
    store = ModelStore(tmp_path / "store", Catalog.load())
    plan = store.remove(str(folder), delete_file=True)
    assert plan.frees > 100_000
    assert [path.name for path in folder.iterdir()] == ["diary.txt"]


def test_hub_cache_link_is_removed_with_its_blob(tmp_path: Path, cached: Put, model: bytes) -> None:
    link = cached(tmp_path / "hub", "own/repo", "m-Q8_0.gguf", model)
    blob = link.resolve()
    store = store_with(
        tmp_path, Place("Hugging Face", tmp_path / "hub", find_in_hugging_face_cache)
    )
    plan = store.remove("hf.co/own/repo", delete_file=True)
    assert plan.frees >= len(model)
    assert not blob.exists()
    assert not link.is_symlink()


def test_target_of_a_symlink_is_kept(tmp_path: Path, model: bytes) -> None:
    target = tmp_path / "target.gguf"
    target.write_bytes(model)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "link.gguf").symlink_to(target)
    store = store_with(tmp_path, Place("Mine", tmp_path / "mine", find_in_plain_folder))
    assert store.remove("link", delete_file=True).frees < 1000
    assert target.read_bytes() == model


def test_ollamas_models_are_not_removed(tmp_path: Path, in_ollama: Put, model: bytes) -> None:
    in_ollama(tmp_path / "o", "registry.ollama.ai/library/tiny/1b", model=model)
    store = store_with(tmp_path, Place("Ollama", tmp_path / "o", find_in_ollama))
    with pytest.raises(NotInStore) as caught:
        store.remove("tiny:1b", delete_file=True)
    assert caught.value.hint == "`ollama rm tiny:1b` removes it."


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may delete everything")
def test_undeletable_file_is_an_error(tmp_path: Path, model: bytes) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "m.gguf").write_bytes(model)
    folder.chmod(0o500)
    with pytest.raises(NotInStore, match="cannot be deleted"):
        ModelStore(tmp_path / "store", Catalog.load()).remove(
            str(folder / "m.gguf"), delete_file=True
        )
    folder.chmod(0o700)
