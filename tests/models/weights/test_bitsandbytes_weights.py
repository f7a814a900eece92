from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingle.kernels.formats.nf4 import dequantize_nf4
from ingle.kernels.formats.weight import NF4Tensor
from ingle.models.errors import InvalidModel, UnsupportedModel
from ingle.models.weights.bitsandbytes_weights import BitsandbytesWeights
from ingle.models.weights.safetensors_weights import SafetensorsWeights


@functools.cache
def bitsandbytes() -> Any:
    """Import bitsandbytes in the first test that needs it, because that takes seconds."""
    return importlib.import_module("bitsandbytes")


safetensors: Any = importlib.import_module("safetensors.torch")
NAME = "model.layers.0.self_attn.q_proj.weight"
Tensors = dict[str, torch.Tensor]


def quantized(
    rows: int, columns: int, dtype: torch.dtype = torch.bfloat16, **options: Any
) -> tuple[Tensors, torch.Tensor]:
    """Return a layer's tensors as bitsandbytes saves them, and its dequantised values."""
    options = {"quant_type": "nf4", "compress_statistics": True, **options}
    layer = bitsandbytes().nn.Linear4bit(columns, rows, bias=False, compute_dtype=dtype, **options)
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)) * 0.02
    layer.load_state_dict({"weight": weight.to(dtype)})
    layer.weight.data = weight.to(dtype)
    layer = layer.to("cpu")
    stored = layer.weight
    values = bitsandbytes().functional.dequantize_4bit(stored.data, stored.quant_state)
    prefix = NAME.removesuffix("weight")
    return {prefix + key: value for key, value in layer.state_dict().items()}, values


def open_folder(folder: Path, tensors: Tensors) -> BitsandbytesWeights:
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    safetensors.save_file(tensors, folder / "model.safetensors")
    return BitsandbytesWeights(SafetensorsWeights(folder))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("nested", [True, False])
def test_values_equal_those_of_bitsandbytes(
    tmp_path: Path, dtype: torch.dtype, nested: bool
) -> None:
    tensors, values = quantized(96, 256, dtype, compress_statistics=nested)
    assert NAME + ".quant_state.bitsandbytes__nf4" in tensors
    embeddings = torch.randn(4, 8)
    weights = open_folder(tmp_path, {"model.embed_tokens.weight": embeddings, **tensors})
    assert sorted(weights.names) == ["model.embed_tokens.weight", NAME]
    plain = weights.get("model.embed_tokens.weight")
    assert isinstance(plain, torch.Tensor)
    assert torch.equal(plain, embeddings)
    found = weights.get(NAME)
    assert isinstance(found, NF4Tensor)
    assert (found.nested is not None) == nested
    assert found.shape == (96, 256)
    assert torch.equal(dequantize_nf4(found, dtype), values)


def test_codes_stored_in_another_dtype(tmp_path: Path) -> None:
    tensors, values = quantized(64, 128, quant_storage=torch.bfloat16)
    assert tensors[NAME].dtype == torch.bfloat16
    found = open_folder(tmp_path, tensors).get(NAME)
    assert isinstance(found, NF4Tensor)
    assert torch.equal(dequantize_nf4(found, torch.bfloat16), values)


# Not 48 or 80, for which bitsandbytes reads wrong scales when it uses AVX-512.
@pytest.mark.parametrize("columns", [40, 100])
def test_rows_that_do_not_fill_blocks(tmp_path: Path, columns: int) -> None:
    tensors, values = quantized(24, columns)
    found = open_folder(tmp_path, tensors).get(NAME)
    assert isinstance(found, torch.Tensor)
    assert found.shape == (24, columns)
    assert torch.equal(found, values)


def test_fp4_is_rejected(tmp_path: Path) -> None:
    tensors, _ = quantized(32, 64, quant_type="fp4")
    with pytest.raises(UnsupportedModel, match="the type 'fp4' of bitsandbytes"):
        open_folder(tmp_path, tensors)


def test_8_bit_is_rejected(tmp_path: Path) -> None:
    tensors = {NAME: torch.zeros(4, 4, dtype=torch.int8), "SCB": torch.ones(4)}
    with pytest.raises(UnsupportedModel, match=f"stores '{NAME}' as I8"):
        open_folder(tmp_path, tensors).get(NAME)


def state(**changes: Any) -> Callable[[Tensors], None]:
    """Change the quantisation state; None removes a key."""

    def change(tensors: Tensors) -> None:
        name = NAME + ".quant_state.bitsandbytes__nf4"
        found = {**json.loads(tensors[name].numpy().tobytes()), **changes}
        text = json.dumps({key: value for key, value in found.items() if value is not None})
        tensors[name] = torch.tensor(list(text.encode()), dtype=torch.uint8)

    return change


def cut(end: str) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[NAME + end] = tensors[NAME + end].flatten()[:-1]

    return change


def text(content: bytes) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        name = NAME + ".quant_state.bitsandbytes__nf4"
        tensors[name] = torch.tensor(list(content), dtype=torch.uint8)

    return change


DAMAGES: dict[str, Callable[[Tensors], object]] = {
    "codes cut": cut(""),
    "scales cut": cut(".absmax"),
    "scales of scales cut": cut(".nested_absmax"),
    "bytes' values cut": cut(".nested_quant_map"),
    "codes' values cut": cut(".quant_map"),
    "no scales": lambda tensors: tensors.pop(NAME + ".absmax"),
    "no codes": lambda tensors: tensors.pop(NAME),
    "no nested scales": lambda tensors: tensors.pop(NAME + ".nested_absmax"),
    "scales of another type": lambda tensors: tensors.update(
        {NAME + ".absmax": tensors[NAME + ".absmax"].float()}
    ),
    "not JSON": text(b"{"),
    "a list": text(b"[]"),
    "nested without end": text(b"[" * 50_000),
    "a description without end": text(b" " * 70_000),
    "another kind": state(quant_type="fp4"),
    "no block size": state(blocksize=None),
    "block size 0": state(blocksize=0),
    "block size 48": state(blocksize=48),
    "a negative block size": state(blocksize=-64),
    "a block size of text": state(blocksize="64"),
    "no shape": state(shape=None),
    "one dimension": state(shape=[96]),
    "another shape": state(shape=[96, 128]),
    "a shape beyond memory": state(shape=[1 << 30, 1 << 30]),
    "a shape of 4000 digits": state(shape=[10**4000, 64]),
    "a negative shape": state(shape=[-96, -64]),
    "a fractional shape": state(shape=[96.0, 64.0]),
    "no nested block size": state(nested_blocksize=None),
    "nested block size 0": state(nested_blocksize=0),
    "an offset of text": state(nested_offset="1"),
    "an offset that is no number": state(nested_offset=float("nan")),
    "nested scales of another type": state(nested_dtype="bfloat16"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_checkpoints_are_rejected(tmp_path: Path, name: str) -> None:
    tensors, _ = quantized(96, 64)
    DAMAGES[name](tensors)
    with pytest.raises(InvalidModel) as caught:
        open_folder(tmp_path, tensors).get(NAME)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 600


def test_code_table_must_be_that_of_nf4(tmp_path: Path) -> None:
    tensors, _ = quantized(96, 64)
    tensors[NAME + ".quant_map"][3] += 0.01
    with pytest.raises(UnsupportedModel, match="sixteen values"):
        open_folder(tmp_path, tensors).get(NAME)


def test_dtype_is_required_if_weights_are_dequantised(tmp_path: Path) -> None:
    tensors, _ = quantized(24, 40)
    state(dtype="complex64")(tensors)
    with pytest.raises(InvalidModel, match="no dtype"):
        open_folder(tmp_path, tensors).get(NAME)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1))
def test_random_quantisation_states_give_weights_or_an_error(
    tmp_path: Path, changes: list[tuple[int, int]]
) -> None:
    tensors, _ = quantized(64, 64)
    description = tensors[NAME + ".quant_state.bitsandbytes__nf4"]
    for place, value in changes:
        description[place % len(description)] = value
    weights = open_folder(tmp_path, tensors)
    try:
        assert weights.get(NAME).shape == (64, 64)
        refusal = ""
    except (InvalidModel, UnsupportedModel) as error:
        refusal = error.message
    assert "\n" not in refusal
