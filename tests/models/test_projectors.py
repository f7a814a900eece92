"""Projectors: found beside a model, pulled with it, named for it, and kept by its copies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import UnsupportedModel
from ingle.models.gguf.projector import choose_projector, projector_bytes
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.places.found_model import Place
from ingle.models.places.model_folders import find_in_lm_studio
from ingle.models.store.model_copies import ModelCopier
from ingle.models.store.model_store import ModelStore
from tests.harness.small_projector import write_small_projector

if TYPE_CHECKING:
    from .conftest import FileServer, GGUFBuilder, ServeHub

REPO = "own/repo"
MODEL = "gemma-3-4b-it-Q4_K_M.gguf"


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", Catalog.load())


@pytest.fixture
def folder(tiny: GGUFBuilder, tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / MODEL).write_bytes(tiny.build())
    return folder


@pytest.mark.parametrize(
    ("beside", "chosen"),
    [
        (["mmproj-F16.gguf"], "mmproj-F16.gguf"),
        (["mmproj-F32.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf"], "mmproj-F16.gguf"),
        (["gemma-3-4b-it-Q8_0.gguf", "mmproj-model.gguf"], "mmproj-model.gguf"),
        (["qwen2-vl-Q8_0.gguf", "mmproj-model.gguf"], None),
        (
            ["qwen2-vl-Q8_0.gguf", "mmproj-qwen2-vl-f16.gguf", "mmproj-gemma-3-4b-it-f16.gguf"],
            "mmproj-gemma-3-4b-it-f16.gguf",
        ),
        (["mmproj.txt", "other.gguf"], None),
    ],
)
def test_projector_is_chosen_by_name(beside: list[str], chosen: str | None) -> None:
    assert choose_projector(MODEL, [MODEL, *beside]) == chosen


def test_projector_beside_a_file(store: ModelStore, folder: Path) -> None:
    assert store.resolve(str(folder / MODEL)).projector is None
    projector = write_small_projector(folder / "mmproj-F16.gguf", "gemma3")
    assert store.resolve(str(folder / MODEL)).projector == projector
    assert projector_bytes(projector) > projector.stat().st_size // 2
    assert projector_bytes(folder / MODEL) == 0


def test_projector_in_lm_studio(tmp_path: Path, tiny: GGUFBuilder) -> None:
    repository = tmp_path / "studio" / "own" / "gemma-GGUF"
    repository.mkdir(parents=True)
    (repository / MODEL).write_bytes(tiny.build())
    projector = write_small_projector(repository / "mmproj-model-f16.gguf", "gemma3")
    place = Place("LM Studio", tmp_path / "studio", find_in_lm_studio)
    (model,) = ModelStore(tmp_path / "store", Catalog.load(), places=[place]).list()
    assert model.projector == projector


def test_added_with_a_projector_and_copied(store: ModelStore, folder: Path, tmp_path: Path) -> None:
    projector = write_small_projector(tmp_path / "eyes.gguf", "gemma3")
    maker = ModelCopier(store)
    added = maker.add(folder / MODEL, "seeing", projector)
    assert added.projector == store.resolve("seeing").projector == projector
    copy = maker.copy(added, "copy")
    store.remove("seeing")
    projector.unlink()
    found = store.resolve("copy").projector
    assert found is not None
    assert found.is_file()
    assert found == copy.projector


def test_only_projectors_are_taken_for_one(store: ModelStore, folder: Path) -> None:
    with pytest.raises(UnsupportedModel, match="no projector"):
        ModelCopier(store).add(folder / MODEL, "seeing", folder / MODEL)


def test_projector_comes_with_a_pull(
    server: FileServer, serve_hub: ServeHub, store: ModelStore, folder: Path
) -> None:
    projector = write_small_projector(folder / "mmproj-F16.gguf", "gemma3")
    serve_hub(REPO, {path.name: path.read_bytes() for path in folder.iterdir()})
    pulled: StoredModel = store.pull(f"hf.co/{REPO}")
    assert pulled.projector is not None
    assert pulled.projector.read_bytes() == projector.read_bytes()
    assert pulled.path.name == MODEL
    assert pulled.size == sum(path.stat().st_size for path in folder.iterdir())
    assert store.resolve(f"hf.co/{REPO}") == pulled


def test_damaged_projector_is_not_pulled(
    server: FileServer, serve_hub: ServeHub, store: ModelStore, folder: Path, tiny: GGUFBuilder
) -> None:
    (folder / "mmproj-F16.gguf").write_bytes(tiny.build())
    serve_hub(REPO, {path.name: path.read_bytes() for path in folder.iterdir()})
    with pytest.raises(UnsupportedModel, match="no projector"):
        store.pull(f"hf.co/{REPO}")
