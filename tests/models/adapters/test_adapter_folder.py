"""The folder of adapters, and the names that it gives them in the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ingle.models.adapters.adapter_folder import without_adapter
from ingle.models.adapters.adapter_settings import AdapterSettings, weights_of
from ingle.models.adapters.gguf_adapter import GGUFAdapterSettings
from ingle.models.adapters.gguf_conversion import write_gguf_adapter
from ingle.models.catalog import Catalog
from ingle.models.errors import InvalidModel, ModelNotFound, UnsupportedModel
from ingle.models.gguf.gguf_writer import PlannedTensor, encode_header, encode_pair, padded
from ingle.models.safetensors.model_folder import read_folder
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


def test_a_gguf_file_is_kept_as_it_is(
    store: ModelStore, make_folder: MakeFolder, tmp_path: Path
) -> None:
    base = make_folder()
    model = store.resolve(str(base))
    settings = AdapterSettings(write_adapter(tmp_path / "mine", base, 1))
    config = read_folder(base).config
    file = tmp_path / "mine.gguf"
    write_gguf_adapter(settings, config, file)
    added = store.adapters.add(model, file, "mine")
    assert weights_of(Path(added.adapter)).read_bytes() == file.read_bytes()
    assert store.adapters.bytes_of(added.name) == file.stat().st_size
    other = msgspec.structs.replace(model, architecture="qwen2")
    with pytest.raises(InvalidModel, match="made for a model of the architecture 'llama'"):
        store.adapters.add(other, file, "other")


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"blk.0.attn_q.weight.lora_a": ((64, 4), "F32")}, "lacks one of the two"),
        ({"blk.0.attn_norm.weight.lora_a": ((64, 4), "F32")}, "which no adapter can"),
        ({"blk.0.attn_q.weight": ((64, 64), "F32")}, "which no adapter can"),
        ({"blk.0.attn_q.weight.lora_a": ((64, 4, 2), "F32")}, "of 3 dimensions"),
        ({"blk.0.attn_q.weight.lora_a": ((64, 4), "Q4_0")}, "as Q4_0"),
        (
            {
                "blk.0.attn_q.weight.lora_a": ((64, 4), "F32"),
                "blk.0.attn_q.weight.lora_b": ((8, 64), "F32"),
            },
            "different or too large ranks",
        ),
    ],
)
def test_a_gguf_file_that_llama_cpp_would_not_apply_is_refused(
    tensors: dict[str, tuple[tuple[int, ...], str]], message: str, tmp_path: Path
) -> None:
    planned = [PlannedTensor(name, shape, kind) for name, (shape, kind) in tensors.items()]
    pairs = [encode_pair("general.type", "adapter"), encode_pair("adapter.type", "lora")]
    file = tmp_path / "adapter.gguf"
    data = sum(padded(tensor.bytes) for tensor in planned)
    file.write_bytes(encode_header(pairs, planned) + bytes(data))
    with pytest.raises((InvalidModel, UnsupportedModel), match=message):
        GGUFAdapterSettings(file)


def test_a_model_in_gguf_is_no_adapter(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(encode_header([encode_pair("general.type", "model")], []))
    with pytest.raises(UnsupportedModel, match="holds no LoRA adapter"):
        GGUFAdapterSettings(file)
