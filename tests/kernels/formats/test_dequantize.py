from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ingle.kernels.formats.dequantize import dequantize, row_chunks
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.formats.weight_format import GGML_FORMATS
from ingle.models.gguf.ggml_types import TENSOR_TYPES
from ingle.models.gguf.gguf_header import TensorInfo, read_header

MakeQuantized = Callable[..., QuantizedTensor]

# Scales that are zero, subnormal, the largest, infinite and NaN.
HALVES = (0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0x7E00)


def reference(data: NDArray[np.uint8], kind: str) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])


def assert_same_bits(ours: torch.Tensor, theirs: NDArray[np.float32]) -> None:
    """Compare every bit, except the payload of NaN."""
    found = ours.numpy()
    assert found.shape == theirs.shape
    assert found.dtype == theirs.dtype == np.float32
    same = found.view(np.uint32) == theirs.view(np.uint32)
    assert np.all(same | (np.isnan(found) & np.isnan(theirs)))


@pytest.mark.parametrize("kind", GGML_FORMATS)
def test_random_blocks_dequantize_like_the_reference(
    make_quantized: MakeQuantized, kind: str
) -> None:
    weight = make_quantized(kind, 64, 2048)
    assert_same_bits(dequantize(weight), reference(weight.data.numpy(), kind))


@pytest.mark.parametrize("kind", GGML_FORMATS)
def test_extreme_scales(make_quantized: MakeQuantized, kind: str) -> None:
    weight = make_quantized(kind, len(HALVES) ** 2, 256)
    pairs = np.array([(a, b) for a in HALVES for b in HALVES], dtype="<u2").view(np.uint8)
    block = GGML_FORMATS[kind]
    place = 208 if kind == "Q6_K" else 0
    width = min(4, block.block_bytes - place)
    blocks = weight.data.view(len(pairs), -1, block.block_bytes)
    blocks[:, :, place : place + width] = torch.as_tensor(pairs)[:, None, :width]
    assert_same_bits(dequantize(weight), reference(weight.data.numpy(), kind))


@given(data=st.data())
@pytest.mark.parametrize("kind", GGML_FORMATS)
def test_arbitrary_blocks_dequantize_like_the_reference(kind: str, data: st.DataObject) -> None:
    block = GGML_FORMATS[kind]
    raw = data.draw(st.binary(min_size=2 * block.block_bytes, max_size=2 * block.block_bytes))
    blocks = np.frombuffer(raw, dtype=np.uint8).reshape(2, -1).copy()
    weight = QuantizedTensor(kind, torch.as_tensor(blocks), block.block_elements)
    assert_same_bits(dequantize(weight), reference(blocks, kind))


@pytest.mark.parametrize("kind", GGML_FORMATS)
def test_half_precision_is_rounded_once(make_quantized: MakeQuantized, kind: str) -> None:
    weight = make_quantized(kind, 32, 512)
    single = reference(weight.data.numpy(), kind)
    with np.errstate(all="ignore"):
        half = single.astype(np.float16)
    found = dequantize(weight, torch.float16).numpy()
    assert np.all((found.view(np.uint16) == half.view(np.uint16)) | np.isnan(single))
    brain = gguf.quants.quantize(single, gguf.GGMLQuantizationType.BF16).view(np.uint16)
    found = dequantize(weight, torch.bfloat16).view(torch.uint16).numpy()
    assert np.all((found == brain) | np.isnan(single))


def test_block_sizes_equal_those_of_gguf() -> None:
    known = {kind.name: (kind.block_elements, kind.block_bytes) for kind in TENSOR_TYPES.values()}
    assert {
        name: (kind.block_elements, kind.block_bytes) for name, kind in GGML_FORMATS.items()
    } == {name: known[name] for name in GGML_FORMATS}


def test_many_rows_are_dequantized_in_chunks(make_quantized: MakeQuantized) -> None:
    weight = make_quantized("Q4_1", 3000, 256)
    assert len(list(row_chunks(*weight.shape, weight.data.device))) > 1
    assert_same_bits(dequantize(weight), reference(weight.data.numpy(), "Q4_1"))


@pytest.mark.parametrize(("rows", "columns"), [(0, 32), (1, 32), (7, 1 << 20), (1000, 5000)])
def test_chunks_cover_every_row_once(rows: int, columns: int) -> None:
    chunks = list(row_chunks(rows, columns, torch.device("cpu")))
    assert [row for chunk in chunks for row in range(chunk.start, chunk.stop)] == list(range(rows))


@pytest.mark.parametrize("kind", GGML_FORMATS)
def test_unaligned_blocks(make_quantized: MakeQuantized, kind: str) -> None:
    weight = make_quantized(kind, 1, GGML_FORMATS[kind].block_elements)
    shifted = torch.zeros(weight.nbytes + 1, dtype=torch.uint8)
    shifted[1:] = weight.data.flatten()
    moved = QuantizedTensor(kind, shifted[1:].view(1, -1), weight.columns)
    assert_same_bits(dequantize(moved), reference(weight.data.numpy(), kind))


def test_unknown_types_are_rejected() -> None:
    weight = QuantizedTensor("Q9_X", torch.zeros(1, 136, dtype=torch.uint8), 256)
    with pytest.raises(ValueError, match="Q9_X"):
        dequantize(weight)


def test_rows_of_the_wrong_length_are_rejected() -> None:
    weight = QuantizedTensor("Q8_0", torch.zeros(2, 34, dtype=torch.uint8), 64)
    with pytest.raises(ValueError, match=re.escape("64 weights of type Q8_0 do not take 34 bytes")):
        dequantize(weight)


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2", "gemma3", "qwen2.5-coder:0.5b"])
def test_real_tensors_dequantize_like_the_reference(
    fetch_model: Callable[[str], Path], name: str
) -> None:
    path = fetch_model(name)
    by_kind: dict[str, TensorInfo] = {}
    for tensor in read_header(path).tensors:
        if len(tensor.shape) == 2:
            by_kind.setdefault(tensor.type, tensor)
    assert by_kind
    for kind, tensor in by_kind.items():
        rows = min(256, tensor.shape[1])
        size = tensor.bytes // tensor.shape[1] * rows
        raw = np.fromfile(path, np.uint8, size, offset=tensor.offset).reshape(rows, -1)
        weight = QuantizedTensor(kind, torch.as_tensor(raw), tensor.shape[0])
        assert_same_bits(dequantize(weight), reference(raw, kind))
