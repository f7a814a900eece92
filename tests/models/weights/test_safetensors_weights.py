from __future__ import annotations

import importlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingle.models.errors import InvalidModel, ModelNotFound, UnsupportedModel
from ingle.models.weights.safetensors_weights import SafetensorsWeights

safetensors: Any = importlib.import_module("safetensors.torch")
Tensors = dict[str, torch.Tensor]


def some_tensors() -> Tensors:
    return {
        "model.embed_tokens.weight": torch.randn(10, 16).bfloat16(),
        "model.layers.0.mlp.up_proj.weight": torch.randn(8, 16),
        "model.norm.weight": torch.randn(16).half(),
        "scalar": torch.tensor(3.0),
        "nothing": torch.empty(0, 4),
    }


def write_shards(folder: Path, shards: dict[str, Tensors], **index: Any) -> None:
    for name, tensors in shards.items():
        safetensors.save_file(tensors, folder / name)
    weight_map = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    index = {"metadata": {}, "weight_map": weight_map, **index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_raw(folder: Path, header: object, data: bytes = b"", *, length: int = -1) -> None:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(raw) if length < 0 else length
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", size) + raw + data)


def assert_same(folder: Path, expected: Tensors) -> None:
    weights = SafetensorsWeights(folder)
    assert set(weights.names) == set(expected)
    for name, tensor in expected.items():
        found = weights.get(name)
        assert found.dtype == tensor.dtype
        assert torch.equal(found, tensor)


def test_single_file(tmp_path: Path) -> None:
    tensors = some_tensors()
    safetensors.save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert_same(tmp_path, tensors)
    assert_same(tmp_path, safetensors.load_file(tmp_path / "model.safetensors"))


def test_shards(tmp_path: Path) -> None:
    tensors = some_tensors()
    first = {name: tensors.pop(name) for name in list(tensors)[:2]}
    shards = {
        "model-00001-of-00002.safetensors": first,
        "model-00002-of-00002.safetensors": tensors,
    }
    write_shards(tmp_path, shards)
    assert_same(tmp_path, {**first, **tensors})


def test_tensors_are_views_of_the_mapping(tmp_path: Path) -> None:
    safetensors.save_file(some_tensors(), tmp_path / "model.safetensors")
    weights = SafetensorsWeights(tmp_path)
    name = "model.layers.0.mlp.up_proj.weight"
    assert weights.get(name).data_ptr() == weights.get(name).data_ptr()


def test_unaligned_tensors(tmp_path: Path) -> None:
    header = {
        "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]},
    }
    write_raw(tmp_path, header, b"\x07" + struct.pack("<2f", 1.5, -2))
    weights = SafetensorsWeights(tmp_path)
    assert torch.equal(weights.get("b"), torch.tensor([1.5, -2]))
    assert weights.get_raw("a").item() == 7


def test_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="holds neither"):
        SafetensorsWeights(tmp_path)
    with pytest.raises(ModelNotFound):
        SafetensorsWeights(tmp_path / "absent")


def test_missing_tensor_is_named(tmp_path: Path) -> None:
    safetensors.save_file(some_tensors(), tmp_path / "model.safetensors")
    with pytest.raises(InvalidModel, match=r"has no tensor 'lm_head\.weight'"):
        SafetensorsWeights(tmp_path).get("lm_head.weight")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float64, torch.float8_e4m3fn])
def test_unsupported_dtypes_are_rejected(tmp_path: Path, dtype: torch.dtype) -> None:
    safetensors.save_file(
        {"a": torch.zeros(4).to(dtype), "b": torch.ones(1)}, tmp_path / "model.safetensors"
    )
    weights = SafetensorsWeights(tmp_path)
    assert weights.get("b").item() == 1
    with pytest.raises(UnsupportedModel, match="stores 'a' as"):
        weights.get("a")


def entry(dtype: Any = "F32", shape: Any = (2,), place: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


BAD_HEADERS: dict[str, tuple[object, int]] = {
    "not JSON": (b"{nonsense", 0),
    "not UTF-8": (b'{"\xff": 1}', 0),
    "a list": ([], 0),
    "nested without end": (b'{"a":' + b"[" * 100_000, 0),
    "a number of 5000 digits": (b'{"a":' + b"9" * 5000 + b"}", 0),
    "a key twice": (b'{"__metadata__": {}, "__metadata__": {}}', 0),
    "an entry that is a list": ({"a": []}, 0),
    "no dtype": ({"a": {"shape": [2], "data_offsets": [0, 8]}}, 8),
    "a dtype that is a number": ({"a": entry(7)}, 8),
    "no shape": ({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, 8),
    "a shape of text": ({"a": entry(shape="2")}, 8),
    "a shape with a truth value": ({"a": entry(shape=[True, 2])}, 8),
    "a shape of fractions": ({"a": entry(shape=[2.0])}, 8),
    "a negative shape": ({"a": entry(shape=[-2])}, 8),
    "a shape beyond memory": ({"a": entry(shape=[1 << 61])}, 8),
    "a shape whose product wraps": ({"a": entry(shape=[1 << 32, 1 << 32])}, 8),
    "a shape of many dimensions": ({"a": entry(shape=[1] * 5000)}, 8),
    "one offset": ({"a": entry(place=[0])}, 8),
    "offsets in the wrong order": ({"a": entry(place=[8, 0])}, 8),
    "a negative offset": ({"a": entry(place=[-8, 0])}, 8),
    "an offset beyond the file": ({"a": entry(place=[1 << 40, (1 << 40) + 8])}, 8),
    "an offset beyond 64 bits": ({"a": entry(place=[1 << 70, (1 << 70) + 8])}, 8),
    "too few bytes for the shape": ({"a": entry(place=[0, 4])}, 4),
    "overlapping tensors": ({"a": entry(), "b": entry(place=[4, 12])}, 12),
    "the same place twice": ({"a": entry(), "b": entry()}, 8),
    "a gap": ({"a": entry(), "b": entry(place=[12, 20])}, 20),
    "a gap in front": ({"a": entry(place=[4, 12])}, 12),
    "bytes at the end": ({"a": entry()}, 9),
    "fewer bytes than it says": ({"a": entry()}, 7),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_invalid_headers_are_rejected(tmp_path: Path, name: str) -> None:
    header, size = BAD_HEADERS[name]
    write_raw(tmp_path, header, bytes(size))
    with pytest.raises(InvalidModel) as caught:
        SafetensorsWeights(tmp_path)
    assert len(caught.value.message) < 600
    assert "\n" not in caught.value.message


def test_unknown_dtypes_are_rejected(tmp_path: Path) -> None:
    write_raw(tmp_path, {"a": entry("F4_E2M1")}, bytes(8))
    with pytest.raises(UnsupportedModel, match="unknown type 'F4_E2M1'"):
        SafetensorsWeights(tmp_path)


@pytest.mark.parametrize("length", [1 << 23, (1 << 23) + 1, 1 << 40, (1 << 64) - 1])
def test_huge_headers_are_rejected_unread(tmp_path: Path, length: int) -> None:
    write_raw(tmp_path, b"{}", length=length)
    os.truncate(tmp_path / "model.safetensors", (1 << 23) + 4)
    with pytest.raises(InvalidModel, match=r"truncated|claims a header of"):
        SafetensorsWeights(tmp_path)


def test_every_truncation_is_detected(tmp_path: Path) -> None:
    safetensors.save_file(
        {"a": torch.randn(16), "b": torch.randn(4).half()}, tmp_path / "model.safetensors"
    )
    for length in range((tmp_path / "model.safetensors").stat().st_size - 1, -1, -1):
        os.truncate(tmp_path / "model.safetensors", length)
        with pytest.raises(InvalidModel):
            SafetensorsWeights(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 1 << 12), st.binary(min_size=1, max_size=4)), min_size=1
    )
)
def test_damaged_headers_give_tensors_or_an_error(
    tmp_path: Path, changes: list[tuple[int, bytes]]
) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.save_file({"a": torch.zeros(16), "b": torch.zeros(4).half()}, path)
    content = bytearray(path.read_bytes())
    size, length = len(content), int.from_bytes(content[:8], "little")
    for place, value in changes:
        start = place % (8 + length)
        content[start : start + len(value)] = value
    path.write_bytes(content[:size])
    try:
        weights = SafetensorsWeights(tmp_path)
        for name in weights.names:
            weights.get(name).float().sum()
        refusal = "."
    except (InvalidModel, UnsupportedModel) as error:
        refusal = error.message
    assert refusal.endswith(".")
    assert "\n" not in refusal


def test_error_about_an_unprintable_name_is_printable(tmp_path: Path) -> None:
    write_raw(
        tmp_path,
        b'{"\\ud800\\n": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}',
        bytes(8),
    )
    with pytest.raises(InvalidModel) as caught:
        SafetensorsWeights(tmp_path)
    assert caught.value.message.isprintable()


def test_too_long_tensor_name_is_rejected(tmp_path: Path) -> None:
    write_raw(tmp_path, {"a" * 100_000: []})
    with pytest.raises(InvalidModel, match="tensor name of 100000 letters"):
        SafetensorsWeights(tmp_path)


BAD_INDICES: dict[str, Callable[[dict[str, Any]], object]] = {
    "not an object": lambda index: [index],
    "no map": lambda index: {"metadata": {}},
    "a map that is a list": lambda index: {"weight_map": []},
    "a file that is a number": lambda index: {"weight_map": {"a": 1}},
    "a file above": lambda index: {"weight_map": {"a": "../outside.safetensors"}},
    "an absolute path": lambda index: {"weight_map": {"a": "/etc/outside.safetensors"}},
    "a path with a drive": lambda index: {"weight_map": {"a": "C:outside.safetensors"}},
    "a path with backslashes": lambda index: {"weight_map": {"a": "..\\outside.safetensors"}},
    "a path with NUL": lambda index: {"weight_map": {"a": "a\0b.safetensors"}},
    "a name of 5000 letters": lambda index: {"weight_map": {"a": "a" * 5000 + ".safetensors"}},
    "another kind of file": lambda index: {"weight_map": {"a": "pytorch_model.bin"}},
    "a shard that is missing": lambda index: {"weight_map": {"a": "absent.safetensors"}},
    "a tensor that is missing": lambda index: {
        "weight_map": {**index["weight_map"], "z": "one.safetensors"}
    },
    "a tensor in another shard": lambda index: {
        "weight_map": {**index["weight_map"], "a": "two.safetensors"}
    },
    "too many shards": lambda index: {
        "weight_map": {str(number): f"{number}.safetensors" for number in range(2000)}
    },
}


@pytest.mark.parametrize("name", BAD_INDICES)
def test_invalid_indices_are_rejected(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    safetensors.save_file({"a": torch.ones(1)}, tmp_path / "outside.safetensors")
    write_shards(
        folder, {"one.safetensors": {"a": torch.ones(1)}, "two.safetensors": {"b": torch.ones(1)}}
    )
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(BAD_INDICES[name](json.loads(path.read_text()))))
    with pytest.raises(InvalidModel) as caught:
        SafetensorsWeights(folder)
    assert "\n" not in caught.value.message


def test_tensor_in_two_shards_is_rejected(tmp_path: Path) -> None:
    first, second = (
        {"a": torch.ones(1), "c": torch.ones(1)},
        {"a": torch.ones(1), "b": torch.ones(1)},
    )
    write_shards(tmp_path, {"one.safetensors": first, "two.safetensors": second})
    with pytest.raises(InvalidModel, match=r"tensor 'a' in one\.safetensors and in two"):
        SafetensorsWeights(tmp_path)


def test_too_large_index_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.touch()
    os.truncate(path, 1 << 30)
    with pytest.raises(InvalidModel, match="reasonable size"):
        SafetensorsWeights(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_fifo_is_rejected_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(InvalidModel, match="not a regular file"):
        SafetensorsWeights(tmp_path)
