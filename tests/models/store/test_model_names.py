"""Which model a name means, in the store and of other programs; and the limits of drafts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import AmbiguousName, DiskFull, ModelNotFound, NotInStore
from ingle.models.places.found_model import FoundModel, Place
from ingle.models.store import blob_folder
from ingle.models.store.blob_folder import BlobFolder
from ingle.models.store.draft_finder import DraftFinder, Vocabulary
from ingle.models.store.model_copies import ModelCopier
from ingle.models.store.model_store import ModelStore

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder

OWN = ("a:latest", "a:1", "b:1", "c:1", "c:2", "both:own")
OTHERS = ("x:latest", "y:1", "z:1", "z:2", "Both:theirs", "b:1")

MEANINGS = {
    "a": "a:latest",
    "A": "a:latest",
    "a:latest": "a:latest",
    "a:1": "a:1",
    "a:2": "",
    "b": "b:1",
    "b:1": "b:1",
    "b:latest": "b:1",
    "c": "",
    "c:2": "c:2",
    "c:latest": "",
    "x": "x:latest*",
    "x:latest": "x:latest*",
    " X ": "x:latest*",
    "y": "y:1*",
    "y:1": "y:1*",
    "y:2": "",
    "z": "",
    "z:2": "z:2*",
    "both": "both:own",
    "both:theirs": "Both:theirs*",
    "d": "",
}
"""The model that each name means; with a star, one of the program's."""


@pytest.fixture
def store(tiny: GGUFBuilder, tmp_path: Path) -> ModelStore:
    """A store with models that have the names `OWN`, and a program's with `OTHERS`."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for number, name in enumerate(OTHERS):
        tiny.set("general.name", 8, name)
        (theirs / f"{number}.gguf").write_bytes(tiny.build())
    (theirs / "own.gguf").write_bytes(tiny.build())

    def find(folder: Path) -> Iterator[FoundModel]:
        for number, name in enumerate(OTHERS):
            yield FoundModel(name, folder / f"{number}.gguf")

    store = ModelStore(tmp_path / "store", Catalog.load(), [Place("Theirs", theirs, find)])
    maker = ModelCopier(store)
    for name in OWN:
        maker.copy(store.resolve(str(theirs / "own.gguf")), name)
    return store


def meaning(store: ModelStore, name: str) -> str:
    try:
        model = store.resolve(name)
    except ModelNotFound:
        return ""
    return f"{model.name}{'*' if model.place else ''}"


def test_name_means_one_model_or_none(store: ModelStore) -> None:
    found = {name: meaning(store, name) for name in MEANINGS}
    assert found == MEANINGS


def test_removal_by_a_name_that_may_mean_several(store: ModelStore) -> None:
    with pytest.raises(AmbiguousName, match="'both' may mean both:own or Both:theirs"):
        store.plan_removal("both")
    assert store.plan_removal("a").name == "a:latest"
    assert store.plan_removal("b:1").shared_with == [name for name in sorted(OWN) if name != "b:1"]
    with pytest.raises(NotInStore, match="belongs to Theirs"):
        store.plan_removal("y")
    plan = store.plan_removal("y", delete_file=True)
    assert (plan.files, plan.place) == ([str(store.resolve("y").path)], "Theirs")
    store.remove("b:1")
    assert meaning(store, "b") == "b:1*"
    assert not store.folders.path("b:1").parent.exists()
    assert [model.name for model in store.own()] == sorted(set(OWN) - {"b:1"})


def test_equal_files_are_hashed_where_their_sizes_are_equal(store: ModelStore) -> None:
    sizes = [model.size for model in store.list() if model.place]
    store.compare()
    for model in store.list():
        if model.place:
            assert (model.sha256 is not None) is (sizes.count(model.size) > 1)


def test_draft_has_half_of_the_parameters_at_most(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: Path) -> Vocabulary:
        return Vocabulary(64, (b"x",))

    monkeypatch.setattr("ingle.models.store.draft_finder.read_vocabulary", read)
    big = msgspec.structs.replace(store.resolve("a"), parameters=10_000)
    for parameters, drafts in ((0, False), (1, True), (5000, True), (5001, False)):
        small = msgspec.structs.replace(store.resolve("c:1"), parameters=parameters)
        assert bool(DraftFinder().find(big, [small])) is drafts


def test_vocabularies_match_in_whole_blocks() -> None:
    def size(number: int, *blocks: bytes) -> Vocabulary:
        return Vocabulary(number, blocks, (("bos", 1),))

    assert size(100, b"a").matches(size(228, b"a", b"b"))
    assert not size(100, b"a").matches(size(229, b"a", b"b"))
    assert not size(10).matches(size(10))
    assert not size(64, b"a").matches(size(64, b"b"))
    assert not size(128, b"a", b"b").matches(size(128, b"a", b"c"))
    assert not size(64, b"a").matches(Vocabulary(64, (b"a",), (("bos", 2),)))
    assert size(64, b"a").matches(Vocabulary(64, (b"a",), (("eos", 2),)))


def test_uploads_leave_room_and_a_day_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [256 * 2**20 + 10]

    def usage(_: Path) -> SimpleNamespace:
        return SimpleNamespace(free=free[0])

    monkeypatch.setattr(blob_folder.shutil, "disk_usage", usage)
    blobs = BlobFolder(tmp_path / "blobs")
    with pytest.raises(DiskFull), blobs.receive("0" * 64, 11):
        pass
    with blobs.receive("0" * 64, 10) as writer:
        writer.write(b"x" * 10)
        free[0] -= 1
        with pytest.raises(DiskFull):
            writer.write(b"x" * 10)
    kept, old = blobs.folder / "kept", blobs.folder / "old"
    for path, age in ((kept, 86400 - 60), (old, 86400 + 60)):
        path.touch()
        os.utime(path, (time.time() - age, time.time() - age))
    with blobs.receive("1" * 64, None):
        assert kept.exists()
        assert not old.exists()
