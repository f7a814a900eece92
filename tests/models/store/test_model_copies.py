"""`ModelCopier`: copies of models, uploads that become models, and files added in place."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import (
    AmbiguousName,
    DiskFull,
    HashMismatch,
    InvalidModel,
    ModelNotFound,
    UnsupportedModel,
    UnusableName,
)
from ingle.models.metadata.manifest import Manifest, write_manifest
from ingle.models.metadata.stored_model import FirstMessage, StoredModel
from ingle.models.store.blob_folder import BlobFolder
from ingle.models.store.model_copies import ModelCopier, ModelOverrides
from ingle.models.store.model_store import ModelStore

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder


@pytest.fixture
def maker(tmp_path: Path) -> ModelCopier:
    return ModelCopier(ModelStore(tmp_path / "store", Catalog.load()))


@pytest.fixture
def store(maker: ModelCopier) -> ModelStore:
    return ModelStore(maker.blobs.folder.parent, Catalog.load())


@pytest.fixture
def original(store: ModelStore, tiny: GGUFBuilder, tmp_path: Path) -> StoredModel:
    path = tmp_path / "original.gguf"
    path.write_bytes(tiny.build())
    return store.resolve(str(path))


def upload(maker: ModelCopier, content: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    with maker.blobs.receive(digest, len(content)) as writer:
        writer.write(content)
        writer.finish()
    return digest


def test_copy_is_a_link_with_another_name(
    maker: ModelCopier, store: ModelStore, original: StoredModel
) -> None:
    copy = maker.copy(original, "Mine")
    assert copy.name == "mine:latest"
    assert copy.path.samefile(original.path)
    assert copy.sha256 == hashlib.sha256(original.path.read_bytes()).hexdigest()
    assert copy.parent == original.name
    for name in ("mine", "mine:latest", "MINE"):
        assert store.resolve(name) == copy
    assert store.remove("mine").frees < copy.size  # the original keeps the weights
    assert original.path.exists()


def test_second_tag_does_not_hide_latest(
    maker: ModelCopier, store: ModelStore, original: StoredModel
) -> None:
    maker.copy(original, "mine")
    maker.copy(original, "mine:small")
    assert store.resolve("mine").name == "mine:latest"
    assert [model.name for model in store.list()] == ["mine:latest", "mine:small"]


def test_model_can_be_recreated_from_itself(
    maker: ModelCopier, store: ModelStore, original: StoredModel
) -> None:
    first = maker.copy(
        original,
        "mine",
        ModelOverrides(system="Be brief.", options={"num_ctx": 64}, sampling={"top_k": 3.0}),
    )
    second = maker.copy(
        first, "mine", ModelOverrides(messages=[FirstMessage("user", "Hi")], options={"seed": 1})
    )
    assert second == store.resolve("mine")
    assert (second.system, second.sampling) == ("Be brief.", {"top_k": 3.0})
    assert second.options == {"num_ctx": 64, "seed": 1}
    assert second.messages == [FirstMessage("user", "Hi")]
    assert sorted(path.name for path in second.path.parent.iterdir()) == [
        "manifest.json",
        "model.gguf",
    ]


def test_copy_on_another_disk_is_a_separate_file(
    maker: ModelCopier, original: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(source: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    copy = maker.copy(original, "mine")
    assert not copy.path.samefile(original.path)
    assert copy.path.read_bytes() == original.path.read_bytes()


@pytest.mark.parametrize("name", ["smollm2", "smollm2:135m", "a/b", "/a", "", "a b", "hf.co/a/b"])
def test_reserved_names_are_rejected(maker: ModelCopier, original: StoredModel, name: str) -> None:
    with pytest.raises(UnusableName):
        maker.copy(original, name)


def test_too_long_overrides_are_rejected(
    maker: ModelCopier, store: ModelStore, original: StoredModel
) -> None:
    with pytest.raises(UnusableName, match="KiB"):
        maker.copy(original, "mine", ModelOverrides(system="x" * 300_000))
    assert store.list() == []


def test_upload_becomes_a_model(maker: ModelCopier, store: ModelStore, tiny: GGUFBuilder) -> None:
    content = tiny.build()
    digest = upload(maker, content)
    assert maker.find(digest) is not None
    model = maker.from_blob(digest, "mine:x", ModelOverrides())
    assert (model.name, model.parent) == ("mine:x", "")
    assert model.path.read_bytes() == content
    assert list(maker.blobs.folder.iterdir()) == []
    assert maker.find(digest) == model.path
    again = maker.from_blob(digest, "mine:y", ModelOverrides())
    assert again.path.samefile(model.path)
    with pytest.raises(ModelNotFound):
        maker.from_blob("0" * 64, "mine:z", ModelOverrides())
    assert [found.name for found in store.list()] == ["mine:x", "mine:y"]


def test_unusable_upload_becomes_no_model(
    maker: ModelCopier, store: ModelStore, tiny: GGUFBuilder
) -> None:
    with pytest.raises(InvalidModel):
        maker.from_blob(upload(maker, b"text"), "mine", ModelOverrides())
    tiny.set("general.architecture", 8, "unheard-of")
    with pytest.raises((UnsupportedModel, InvalidModel)):
        maker.from_blob(upload(maker, tiny.build()), "mine", ModelOverrides())
    assert store.list() == []


def test_upload_with_wrong_digest_is_discarded(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path / "blobs")
    digest = f"sha256:{'0' * 64}"
    with blobs.receive(digest, None) as writer:
        writer.write(b"other")
        with pytest.raises(HashMismatch, match="digest mismatch"):
            writer.finish()
    assert list(blobs.folder.iterdir()) == []
    assert blobs.find(digest) is None
    for bad in ("", "x", "sha256:zz", f"sha256:{'0' * 63}", "../" + "0" * 64, "0" * 64 + "\n"):
        with pytest.raises(UnusableName):
            blobs.find(bad)


def test_upload_larger_than_the_disk_is_rejected_at_once(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path / "blobs")
    with pytest.raises(DiskFull), blobs.receive("0" * 64, 2**60):
        pass
    assert list(blobs.folder.iterdir()) == []


def test_unused_uploads_are_removed_after_a_day(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path / "blobs")
    blobs.folder.mkdir()
    old, new = blobs.folder / ("1" * 64), blobs.folder / ("2" * 64)
    old.touch()
    new.touch()
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    with blobs.receive("0" * 64, None):
        pass
    assert list(blobs.folder.iterdir()) == [new]


def test_added_file_gets_a_name_and_stays_in_place(
    maker: ModelCopier, store: ModelStore, tiny: GGUFBuilder, tmp_path: Path
) -> None:
    path = tmp_path / "Some-Model-Q8_0.gguf"
    path.write_bytes(tiny.build())
    added = maker.add(path, "mine")
    assert (added.name, added.path, added.place) == ("mine:q4_1", path, str(tmp_path))
    assert store.resolve("mine") == added
    assert maker.add(path).name == "some-model:q8_0"
    assert maker.add(path, "mine").name == "mine:q4_1"  # again, as after moving it back
    plan = store.remove("mine")
    assert (plan.keeps, path.exists()) == ([str(path)], True)


def test_add_rejects_taken_and_invalid_names(
    maker: ModelCopier, original: StoredModel, tiny: GGUFBuilder, tmp_path: Path
) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(tiny.build(seed=1))
    maker.copy(original, "taken:1")
    for name, reason in (
        ("taken:1", "already"),
        ("smollm2", "catalog"),
        ("a/b", "cannot be the name"),
    ):
        with pytest.raises(UnusableName, match=reason):
            maker.add(path, name)


def test_name_of_the_catalog_is_for_its_own_file(tmp_path: Path, tiny: GGUFBuilder) -> None:
    path, other = tmp_path / "downloaded.gguf", tmp_path / "other.gguf"
    path.write_bytes(tiny.build())
    other.write_bytes(tiny.build(seed=1))
    assert path.stat().st_size == other.stat().st_size
    entry = msgspec.structs.replace(
        Catalog.load().entries[0],
        size=path.stat().st_size,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )
    store = ModelStore(tmp_path / "store", Catalog([entry], entry.full_name))
    with pytest.raises(UnusableName, match="catalog"):
        ModelCopier(store).add(other, entry.name)
    added = ModelCopier(store).add(path, entry.name)
    assert (added.name, added.path, added.sha256) == (entry.full_name, path, entry.sha256)
    assert store.resolve(entry.name).path == path


def test_unnamed_file_of_the_catalog_gets_its_name(tmp_path: Path, tiny: GGUFBuilder) -> None:
    catalog = Catalog.load()
    entry = catalog.entries[0]
    alias = next(alias for alias in entry.aliases if ":" not in alias)
    path, other = tmp_path / f"{alias}.Q4_0.gguf", tmp_path / f"{alias}.gguf"
    path.write_bytes(tiny.build())
    other.write_bytes(tiny.build(seed=1))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    entry = msgspec.structs.replace(entry, size=path.stat().st_size, sha256=digest)
    maker = ModelCopier(ModelStore(tmp_path / "store", Catalog([entry], entry.full_name)))
    # Else this alias would mean another model once the catalog's is pulled.
    assert maker.add(path).name == entry.full_name
    assert maker.add(other).name == f"{alias}:q4_1"


def test_added_folder_gets_a_name(
    maker: ModelCopier, store: ModelStore, make_folder: Callable[..., Path]
) -> None:
    folder = make_folder("Tiny Llama")
    added = maker.add(folder)
    assert (added.name, added.path) == ("tiny-llama:bf16", folder)
    assert store.resolve("tiny-llama").sha256 == store.resolve(str(folder)).sha256


def test_removal_refuses_a_catalog_name_that_begins_another_models(
    tmp_path: Path, tiny: GGUFBuilder
) -> None:
    catalog = Catalog.load()
    entry = next(
        entry for entry in catalog.entries if entry.aliases and ":" not in entry.aliases[0]
    )
    alias = entry.aliases[0]
    store = ModelStore(tmp_path / "store", catalog)
    path = tmp_path / "added.gguf"
    path.write_bytes(tiny.build())
    folder = store.folders.path(entry.full_name)
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(path.read_bytes())
    model = store.resolve(str(path))
    details = model.details(name=entry.full_name)
    write_manifest(folder, Manifest(file="model.gguf", sha256="0" * 64, **details))
    added = ModelCopier(store).add(path, f"{alias}:mine")
    assert store.resolve(alias).name == entry.full_name
    with pytest.raises(AmbiguousName, match=f"{entry.full_name} or {added.name}"):
        store.remove(alias)
    assert store.remove(entry.full_name).name == entry.full_name
    assert store.remove(added.name).name == added.name
