from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ingle.kernels.formats.codecs import PACKERS
from ingle.kernels.formats.nf4 import quantize_nf4
from ingle.kernels.formats.repack import can_repack, repack
from ingle.kernels.formats.weight import QuantizedTensor

MakeQuantized = Callable[..., QuantizedTensor]


SIZES = [256, 512, 1024, 1280, 2816, 4096]
SMALL_SIZES = [32, 96, 896, 1024, 1056, 1568, 4096]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (kind, columns)
        for kind in sorted(PACKERS)
        for columns in (SIZES if kind.endswith("K") or kind in ("G4_64", "G4_128") else SMALL_SIZES)
    ],
)
def test_repacked_rows_keep_their_size_and_are_aligned(
    make_quantized: MakeQuantized, kind: str, columns: int
) -> None:
    weight = make_quantized(kind, 33, columns, seed=columns)  # arbitrary bytes
    repacked = repack(weight)
    assert repacked.shape == weight.shape
    assert repacked.data.is_contiguous()
    assert repacked.data.shape[1] % 16 == 0
    assert 0 <= repacked.data.shape[1] - weight.data.shape[1] < 16
    assert (repacked.type, repacked.columns) == (kind, columns)


def test_rows_are_repacked_in_chunks(make_quantized: MakeQuantized) -> None:
    """More weights than are unpacked at once, with a partial last chunk."""
    for kind in ("Q5_1", "Q6_K"):
        weight = make_quantized(kind, 77, 8192)
        whole = repack(weight)
        alone = torch.cat([repack(weight.rows(slice(row, row + 1))).data for row in range(77)])
        assert torch.equal(whole.data, alone)


@pytest.mark.parametrize("kind", ["Q5_0", "Q5_1", "Q5_K"])
def test_fifth_bits_are_where_the_kernels_read_them(
    make_quantized: MakeQuantized, kind: str
) -> None:
    """Shifts and masks of csrc/weight_group.cuh give the same weights as gguf."""
    weight = make_quantized(kind, 1, 1024, seed=4)
    groups = 512 + 128
    data = repack(weight).data[0]
    nibbles = data[:512].view(32, 16).numpy().view("<u4")
    bits = data[512:groups].view(32, 4).numpy().view("<u4")
    places = np.concatenate([bits, bits << 2, bits >> 2, bits << 4 | bits >> 28], axis=1)
    fifth = places & 0x18181818
    first = nibbles & 0x0F0F0F0F | fifth & 0x10101010
    last = nibbles & 0xF0F0F0F0 | fifth & 0x08080808
    found = np.concatenate([first.view(np.uint8), last.view(np.uint8) >> 3], axis=1)
    if kind == "Q5_K":
        blocks = weight.data.numpy().reshape(4, 176)
        packed = blocks[:, 48:].reshape(4, 4, 1, 32)
        low = np.concatenate([packed & 15, packed >> 4], axis=2).reshape(32, 32)
        high = [blocks[:, 16:48] >> group & 1 for group in range(8)]
        expected = low | np.stack(high, axis=1).reshape(32, 32) << 4
    else:
        blocks = weight.data.numpy().reshape(32, -1)
        packed = blocks[:, -16:]
        high = np.unpackbits(blocks[:, -20:-16], axis=1, bitorder="little")
        expected = np.concatenate([packed & 15, packed >> 4], axis=1) | high << 4
    assert np.array_equal(found, expected)


def test_each_q4_k_group_is_sixteen_separate_bytes(make_quantized: MakeQuantized) -> None:
    """Byte i of group g has weight i in its low nibble, and weight i + 16 in its high one."""
    weight = make_quantized("Q4_K", 1, 1024)
    packed = repack(weight).data[0, :512].view(32, 16)
    stored = weight.data.view(4, 144)
    for group in (0, 1, 13, 31):
        block, inside = divmod(group, 8)
        source = stored[block, 16 + inside // 2 * 32 :][:32]
        values = source & 15 if inside % 2 == 0 else source >> 4
        assert torch.equal(packed[group], values[:16] | values[16:] << 4)


@pytest.mark.parametrize("columns", [64, 960, 1024, 1088, 4096, 4160])
def test_rows_of_nf4_keep_their_order(columns: int) -> None:
    weight = quantize_nf4(torch.randn(19, columns))
    repacked = repack(weight)
    assert repacked.shape == weight.shape
    assert repacked.data.shape[1] % 16 == 0
    codes = repacked.data[:, :32]
    assert torch.equal(codes >> 4 | codes << 4, weight.codes[:, :32])
    assert repacked.nested is weight.nested


def test_nf4_with_other_block_sizes_is_rejected() -> None:
    for weight in (
        quantize_nf4(torch.randn(4, 256), block_size=128),
        quantize_nf4(torch.randn(4, 256), double_quantization=False),
    ):
        assert not can_repack(weight)
        with pytest.raises(ValueError, match="no layout"):
            repack(weight)
