from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.formats.weight_format import GGML_FORMATS
from ingle.models.errors import InvalidModel, ModelNotFound, UnsupportedModel
from ingle.models.gguf.ggml_types import TENSOR_TYPES
from ingle.models.weights.gguf_weights import GGUFWeights

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder, Tensor

Open = Callable[["GGUFBuilder"], GGUFWeights]
NUMBERS = {kind.name: number for number, kind in TENSOR_TYPES.items()}
PLAIN = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[GGUFBuilder], Path]:
    def build(builder: GGUFBuilder) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(builder.build())
        return path

    return build


Write = Callable[["GGUFBuilder"], Path]


def touch_all(weights: GGUFWeights) -> float:
    """Read every byte, as loading does."""
    total = 0.0
    for name in weights.names:
        weight = weights.get(name)
        raw = weight.data if isinstance(weight, QuantizedTensor) else weight
        total += float(raw.float().nan_to_num().sum())
    return total


@pytest.mark.parametrize("kind", GGML_FORMATS)
def test_tensors_equal_the_reference_readers(
    tiny: GGUFBuilder, new_tensor: Callable[..., Tensor], write: Write, kind: str
) -> None:
    tiny.tensors = [
        new_tensor("a", (64,)),
        new_tensor("b", (512, 6), NUMBERS[kind]),
        new_tensor("c", (256, 3), NUMBERS[kind]),
    ]
    path = write(tiny)
    weights = GGUFWeights(path)
    assert list(weights.names) == ["a", "b", "c"]
    reader: Any = gguf.GGUFReader(path)
    for theirs in reader.tensors:
        ours = weights.get(theirs.name)
        data: np.ndarray[Any, Any] = theirs.data
        if isinstance(ours, QuantizedTensor):
            assert (ours.type, *ours.shape) == (kind, *map(int, reversed(theirs.shape)))
            assert np.array_equal(ours.data.numpy(), data)
            assert dequantize(ours).shape == ours.shape
        else:
            assert tuple(ours.shape) == tuple(map(int, reversed(theirs.shape)))
            assert np.array_equal(ours.view(torch.uint8).numpy(), data.view(np.uint8))


def test_plain_tensors_keep_their_dimensions(
    tiny: GGUFBuilder, new_tensor: Callable[..., Tensor], write: Write
) -> None:
    tiny.tensors = [new_tensor("a", (5, 3, 2)), new_tensor("b", (3,)), new_tensor("c", ())]
    weights = GGUFWeights(write(tiny))
    shapes = [tuple(weights.get(name).shape) for name in "abc"]
    assert shapes == [(2, 3, 5), (3,), ()]


def test_tensors_are_views_of_the_mapping(tiny: GGUFBuilder, write: Write) -> None:
    weights = GGUFWeights(write(tiny))
    first, again = weights.get("output_norm.weight"), weights.get("output_norm.weight")
    assert isinstance(first, torch.Tensor)
    assert isinstance(again, torch.Tensor)
    assert first.data_ptr() == again.data_ptr()


@pytest.mark.model
def test_tensors_of_a_real_file(smollm2_path: Path) -> None:
    weights = GGUFWeights(smollm2_path)
    embeddings = weights.get("token_embd.weight")
    assert embeddings.shape == (49152, 576)
    assert isinstance(embeddings, QuantizedTensor)
    values = dequantize(embeddings.rows(slice(0, 1000)))
    assert 0.05 < float(values.std()) < 0.5
    norm = weights.get("blk.0.attn_norm.weight")
    assert isinstance(norm, torch.Tensor)
    assert norm.dtype == torch.float32
    assert norm.shape == (576,)


def test_missing_tensor_is_named(tiny: GGUFBuilder, write: Write) -> None:
    with pytest.raises(InvalidModel, match=r"model\.gguf has no tensor 'blk\.1\.attn_q\.weight'"):
        GGUFWeights(write(tiny)).get("blk.1.attn_q.weight")


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        GGUFWeights(tmp_path / "absent.gguf")


@pytest.mark.parametrize("kind", sorted(set(NUMBERS) - set(GGML_FORMATS)))
def test_types_without_kernel_hint_at_llama_cpp(
    tiny: GGUFBuilder, new_tensor: Callable[..., Tensor], write: Write, kind: str
) -> None:
    tiny.tensors.append(new_tensor("blk.0.ffn_up.weight", (256, 2), NUMBERS[kind]))
    with pytest.raises(UnsupportedModel, match=f"as {kind}, which only llama.cpp") as caught:
        GGUFWeights(write(tiny))
    assert "llama.cpp" in (caught.value.hint or "")


def test_matrices_of_experts_are_the_rows_of_one(
    tiny: GGUFBuilder, new_tensor: Callable[..., Tensor], write: Write
) -> None:
    tiny.tensors.append(new_tensor("blk.0.ffn_up_exps.weight", (256, 2, 4), NUMBERS["Q4_K"]))
    weight = GGUFWeights(write(tiny)).get("blk.0.ffn_up_exps.weight")
    assert isinstance(weight, QuantizedTensor)
    assert weight.shape == (8, 256)


def test_every_truncation_is_detected(tiny: GGUFBuilder, write: Write) -> None:
    path = write(tiny)
    for length in (*range(path.stat().st_size - 1, 64, -211), *range(64, -1, -1)):
        os.truncate(path, length)
        with pytest.raises(InvalidModel):
            GGUFWeights(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8)), min_size=1
    )
)
def test_damaged_headers_give_tensors_or_an_error(
    tiny: GGUFBuilder, write: Write, changes: list[tuple[int, bytes]]
) -> None:
    path = write(tiny)
    content = bytearray(path.read_bytes())
    size, length = len(content), len(tiny.header())
    for place, value in changes:
        start = place % length
        content[start : start + len(value)] = value
    path.write_bytes(content[:size])
    try:
        touch_all(GGUFWeights(path))
        refusal = "."
    except (InvalidModel, UnsupportedModel) as error:
        refusal = error.message
    assert refusal.endswith(".")
    assert "\n" not in refusal
