"""Safetensors folders: what is read from them, and how damage is reported."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from ingle.models.errors import InvalidModel, ModelNotFound, UnsupportedModel
from ingle.models.safetensors.model_folder import is_model_folder, read_folder

pytestmark = pytest.mark.quick

Weights = Mapping[str, Any]

CONFIG: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 4,
    "max_position_embeddings": 128,
}
HALF = np.zeros((4, 8), np.float16)
SINGLE = np.zeros((4,), np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a valid model in one file."""
    path = tmp_path / "tiny"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "tokenizer.json").write_text("{}")
    save_file({"embed": HALF, "norm": SINGLE}, path / "model.safetensors")
    return path


def shard(folder: Path, *parts: Weights) -> None:
    """Put the weights into several shards instead."""
    (folder / "model.safetensors").unlink()
    names: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        file = f"model-{number:05}-of-{len(parts):05}.safetensors"
        save_file(dict(part), folder / file)
        names |= dict.fromkeys(part, file)
    write_index(folder, names)


def write_index(folder: Path, names: Mapping[str, object]) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def test_single_file_folder(folder: Path) -> None:
    found = read_folder(folder)
    assert (found.name, found.parameters, found.tensor_bytes) == ("tiny", 36, 80)
    assert found.quantization == "F16"
    assert (found.config.architecture, found.config.context) == ("llama", 128)
    assert not found.has_chat_template
    assert is_model_folder(folder)
    assert not is_model_folder(folder.parent)


def test_sharded_folder(folder: Path) -> None:
    shard(folder, {"embed": HALF}, {"norm": SINGLE})
    found = read_folder(folder)
    assert {name: path.name for name, (path, _) in found.tensors.items()} == {
        "embed": "model-00001-of-00002.safetensors",
        "norm": "model-00002-of-00002.safetensors",
    }
    assert found.parameters == 36


def test_consolidated_weights_are_ignored(folder: Path) -> None:
    save_file({"layers.0": HALF}, folder / "consolidated.safetensors")
    assert read_folder(folder).parameters == 36


def test_symlinks_into_a_download_cache_are_followed(folder: Path, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    (folder / "model.safetensors").rename(blob)
    (folder / "model.safetensors").symlink_to(blob)
    assert read_folder(folder).parameters == 36


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat_template.jinja", "{{ messages }}"),
        ("tokenizer_config.json", '{"chat_template": "{{ messages }}"}'),
        ("chat_template.json", '{"chat_template": "{{ messages }}"}'),
        (
            "tokenizer_config.json",
            '{"chat_template": [{"name": "default", "template": "{{ messages }}"}]}',
        ),
    ],
)
def test_chat_template_is_found_in_every_location(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)
    assert read_folder(folder).has_chat_template


def test_packed_four_bit_weights_count_as_two_parameters(folder: Path) -> None:
    packed = {
        "proj.weight": np.zeros((64, 1), np.uint8),
        "proj.weight.absmax": np.zeros(2, np.uint8),
        "proj.weight.quant_map": np.zeros(16, np.float32),
        "proj.weight.nested_absmax": np.zeros(1, np.float32),
        "proj.weight.nested_quant_map": np.zeros(256, np.float32),
        "proj.weight.quant_state.bitsandbytes__nf4": np.zeros(80, np.uint8),
        "norm": SINGLE,
    }
    save_file(packed, folder / "model.safetensors")
    quantization = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (folder / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": quantization}))
    found = read_folder(folder)
    assert (found.parameters, found.quantization) == (132, "NF4")


Damage = Callable[[Path], object]


def replaced(name: str, content: str) -> Damage:
    return lambda folder: (folder / name).write_text(content)


def without(*names: str) -> Damage:
    return lambda folder: [(folder / name).unlink() for name in names]


def with_quantization(method: str) -> Damage:
    config = {**CONFIG, "quantization_config": {"quant_method": method}}
    return replaced("config.json", json.dumps(config))


def leads_out(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "other.safetensors")
    write_index(folder, {"w": "../other.safetensors"})


def has_an_empty_index(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.safetensors.index.json")
    (folder / "model.safetensors.index.json").write_text("{}")


def lacks_a_shard(folder: Path) -> None:
    shard(folder, {"embed": HALF}, {"norm": SINGLE})
    (folder / "model-00002-of-00002.safetensors").unlink()


def has_a_tensor_twice(folder: Path) -> None:
    shard(folder, {"embed": HALF, "norm": SINGLE}, {"norm": SINGLE})
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    write_index(folder, {"embed": names[0], "norm": names[1]})


def has_other_files(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "a.safetensors")


def has_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def has_a_pipe(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")


def has_integers(folder: Path) -> None:
    save_file({"w": np.zeros(4, np.int8)}, folder / "model.safetensors")


def has_an_integer_weight(folder: Path) -> None:
    save_file({"norm.weight": np.zeros(4, np.int64)}, folder / "model.safetensors")


def is_an_adapter(folder: Path) -> None:
    (folder / "config.json").rename(folder / "adapter_config.json")
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")


DAMAGES: list[tuple[Damage, type[Exception], str]] = [
    (without("config.json"), InvalidModel, "has no config.json"),
    (without("tokenizer.json"), UnsupportedModel, "has no tokenizer.json"),
    (without("model.safetensors"), ModelNotFound, "neither model.safetensors nor"),
    (replaced("config.json", "{"), InvalidModel, "is not JSON"),
    (replaced("config.json", "[]"), InvalidModel, "not a JSON object"),
    (replaced("config.json", "[" * 10**6), InvalidModel, "is not JSON"),
    (replaced("config.json", '"' + "x" * (16 << 20)), InvalidModel, "larger than 16 MiB"),
    (has_an_empty_index, InvalidModel, "does not say which file"),
    (has_a_pipe, InvalidModel, "not a regular file"),
    (leads_out, InvalidModel, "not a file beside it"),
    (lacks_a_shard, InvalidModel, "lacks model-00002"),
    (has_a_tensor_twice, InvalidModel, "'norm' in model-00001"),
    (has_other_files, ModelNotFound, "neither model.safetensors nor"),
    (
        replaced("config.json", json.dumps({**CONFIG, "model_type": "bert"})),
        UnsupportedModel,
        "'bert'",
    ),
    (
        replaced("config.json", json.dumps({**CONFIG, "vocab_size": 10**12})),
        InvalidModel,
        "vocab_size",
    ),
    (
        replaced("config.json", json.dumps({**CONFIG, "bos_token_id": 2**32})),
        InvalidModel,
        "bos_token_id is 4294967296",
    ),
    (
        replaced("config.json", json.dumps({**CONFIG, "eos_token_id": [1, 2**40]})),
        InvalidModel,
        "eos_token_id",
    ),
    (has_a_pickle, UnsupportedModel, "pickle"),
    (has_integers, UnsupportedModel, "as I8"),
    (has_an_integer_weight, UnsupportedModel, "stores 'norm.weight' as I64"),
    (is_an_adapter, UnsupportedModel, "an adapter"),
    (with_quantization("aqlm"), UnsupportedModel, "'aqlm'"),
    (with_quantization("gptq"), InvalidModel, "does not say its 'bits'"),
    (with_quantization("awq"), InvalidModel, "weights are AWQ, but no tensor is stored so"),
]


@pytest.mark.parametrize(("damage", "kind", "reason"), DAMAGES, ids=range(len(DAMAGES)))
def test_damage_is_reported(
    folder: Path, damage: Damage, kind: type[Exception], reason: str
) -> None:
    damage(folder)
    with pytest.raises(kind) as caught:
        read_folder(folder)
    assert reason in str(caught.value)
    assert str(folder.parent) in str(caught.value)
    assert str(caught.value).isprintable()
    assert getattr(caught.value, "hint", None)


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        read_folder(tmp_path / "missing")
