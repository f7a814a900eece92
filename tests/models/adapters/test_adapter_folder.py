"""The folder of adapters, and the names that it gives them in the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.models.adapters.adapter_folder import without_adapter
from ingle.models.catalog import Catalog
from ingle.models.errors import InvalidModel, ModelNotFound, UnsupportedModel
from ingle.models.store.model_store import ModelStore
from tests.harness.peft_adapters import write_adapter

MakeFolder = Callable[..., Path]


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "data" / "models", Catalog.load())


def test_a_model_with_an_adapter_is_a_name_of_the_same_file(
    store: ModelStore, make_folder: MakeFolder, tmp_path: Path
) -> None:
    base = make_folder()
    model = store.resolve(str(base))
    source = write_adapter(tmp_path / "mine", base, 1)
    added = store.adapters.add(model, source, "French")
    assert added.name == f"{base}+French"
    found = store.resolve(f"{base}+french")
    assert found == added
    assert found.path == model.path
    assert without_adapter(found) == without_adapter(model) == model
    assert store.adapters.models() == [str(base)]
    assert store.adapters.bytes_of(found.name) == store.adapters.bytes_of(model.name) > 0


def test_another_content_has_another_folder(
    store: ModelStore, make_folder: MakeFolder, tmp_path: Path
) -> None:
    """A process that loaded the first never takes it for the second."""
    base = make_folder()
    model = store.resolve(str(base))
    first = store.adapters.add(model, write_adapter(tmp_path / "one", base, 1), "mine")
    again = store.adapters.add(model, tmp_path / "one", "mine")
    second = store.adapters.add(model, write_adapter(tmp_path / "two", base, 2), "mine")
    assert first.adapter == again.adapter != second.adapter
    assert not Path(first.adapter).exists()
    assert [each.name for each in store.adapters.of_model(model)] == [second.name]
    store.adapters.remove(second)
    with pytest.raises(ModelNotFound, match="has no adapter 'mine'"):
        store.resolve(second.name)


def test_what_is_no_adapter_is_refused(
    store: ModelStore, make_folder: MakeFolder, tmp_path: Path
) -> None:
    base = make_folder()
    model = store.resolve(str(base))
    good = write_adapter(tmp_path / "good", base, 1)
    with pytest.raises(InvalidModel, match="cannot be the name"):
        store.adapters.add(model, good, "../up")
    with pytest.raises(ModelNotFound, match=r"has no adapter_config\.json"):
        store.adapters.add(model, base, "mine")
    with pytest.raises(UnsupportedModel, match="uses DoRA"):
        store.adapters.add(model, write_adapter(tmp_path / "d", base, 1, use_dora=True), "mine")
    (good / "adapter_model.safetensors").write_bytes(b"\x08")
    with pytest.raises(InvalidModel, match="is truncated"):
        store.adapters.add(model, good, "mine")
    assert store.adapters.of_model(model) == []
