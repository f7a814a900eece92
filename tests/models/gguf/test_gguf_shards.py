from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from ingle.models.errors import InvalidModel
from ingle.models.gguf.gguf_header import read_header
from ingle.models.metadata.description_cache import DescriptionCache
from ingle.models.weights.gguf_weights import GGUFWeights

Parts = Callable[..., list[Path]]


def split(path: Path, folder: Path, tensors: int) -> Path:
    """Split a real file with gguf-py into shards of `tensors` tensors; return the first."""
    import gguf

    folder.mkdir(parents=True, exist_ok=True)
    reader: Any = gguf.GGUFReader(path)
    writer: Any = gguf.GGUFWriter(folder / "cut.gguf", "", split_max_tensors=tensors)
    for field in reader.fields.values():
        if field.name.startswith(("GGUF.", "split.")):
            continue
        sub = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return min(folder.glob("cut-00001-of-*.gguf"))


def test_shards_are_read_as_one_model(tiny_parts: Parts) -> None:
    paths = tiny_parts()
    header = read_header(paths[0])
    assert header.files == tuple(paths)
    assert [tensor.file for tensor in header.tensors] == list(range(len(paths)))
    assert header.architecture == "llama"
    found = DescriptionCache().describe(paths[0])
    assert found.size == sum(path.stat().st_size for path in paths)
    assert found.parameters == header.parameters


def test_weights_reader_finds_every_tensor_in_its_shard(tiny_parts: Parts) -> None:
    paths = tiny_parts()
    weights = GGUFWeights(paths[0])
    for index, tensor in enumerate(read_header(paths[0]).tensors):
        stored = cast("Any", weights.get(tensor.name))
        raw = stored.data if hasattr(stored, "data") and hasattr(stored, "columns") else stored
        bytes_of = raw.contiguous().view(torch.uint8).numpy().tobytes()
        assert paths[index].read_bytes()[tensor.offset :][: tensor.bytes] == bytes_of


@pytest.mark.parametrize("index", [0, 1])
def test_changed_shard_is_detected(tiny_parts: Parts, index: int) -> None:
    paths, descriptions = tiny_parts(), DescriptionCache()
    descriptions.describe(paths[0])
    paths[index].write_bytes(paths[index].read_bytes()[:-64])
    with pytest.raises(InvalidModel, match="truncated"):
        descriptions.describe(paths[0])


def test_shards_of_different_models_are_rejected(tiny_parts: Parts) -> None:
    paths = tiny_parts()
    with pytest.raises(InvalidModel, match="is part 2 of a model") as caught:
        read_header(paths[1])
    assert paths[0].name in (caught.value.hint or "")
    renamed = paths[0].with_name("m.gguf")
    shutil.copy(paths[0], renamed)
    with pytest.raises(InvalidModel, match="its name does not say which"):
        read_header(renamed)
    shutil.copy(paths[0], paths[1])
    with pytest.raises(InvalidModel, match="does not say that it is part 2"):
        read_header(paths[0])
    paths[1].unlink()
    with pytest.raises(InvalidModel, match="is not beside it"):
        read_header(paths[0])


@pytest.mark.slow
@pytest.mark.model
def test_sharded_real_model_has_the_same_header_and_tensors(
    smollm2_path: Path, tmp_path: Path
) -> None:
    first = split(smollm2_path, tmp_path / "cut", 100)
    whole, joined = read_header(smollm2_path), read_header(first)
    assert len(joined.files) == 3
    for name in ("parameters", "tensor_bytes", "quantization", "context", "vocab_size"):
        assert getattr(joined, name) == getattr(whole, name)
    one, other = GGUFWeights(smollm2_path), GGUFWeights(first)
    assert set(one.names) == set(other.names)
    for name in one.names:
        left, right = cast("Any", one.get(name)), cast("Any", other.get(name))
        plain = isinstance(left, torch.Tensor)
        assert torch.equal(left if plain else left.data, right if plain else right.data)


LOAD = """
import sys, llama_cpp
model = llama_cpp.Llama(sys.argv[1], n_ctx=64, verbose=False)
print(model("The capital of France is", max_tokens=1, temperature=0.0)["choices"][0]["text"])
"""


@pytest.mark.slow
@pytest.mark.model
def test_llama_cpp_loads_the_first_shard(smollm2_path: Path, tmp_path: Path) -> None:
    first = split(smollm2_path, tmp_path / "cut", 100)
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOAD, str(first)], capture_output=True, text=True
    )
    assert done.stdout == " Paris\n", done.stderr
