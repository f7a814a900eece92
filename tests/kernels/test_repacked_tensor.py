from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ingle.kernels.nf4 import quantize_nf4
from ingle.kernels.quantized_tensor import QuantizedTensor
from ingle.kernels.repacked_nf4 import repack_nf4, unpack_nf4
from ingle.kernels.repacked_tensor import REPACKED_TYPES, repack, unpack

MakeQuantized = Callable[..., QuantizedTensor]


@pytest.mark.parametrize("columns", [256, 512, 1024, 1280, 2816, 4096])
@pytest.mark.parametrize("kind", sorted(REPACKED_TYPES))
def test_repacking_loses_nothing(make_quantized: MakeQuantized, kind: str, columns: int) -> None:
    weight = make_quantized(kind, 33, columns, seed=columns)  # any bytes at all
    repacked = repack(weight)
    assert repacked.shape == weight.shape
    assert repacked.data.is_contiguous()
    assert repacked.data.shape[1] % 16 == 0
    assert 0 <= repacked.data.shape[1] - weight.data.shape[1] < 16
    back = unpack(repacked)
    assert torch.equal(back.data, weight.data)
    assert (back.type, back.columns) == (kind, columns)


def test_each_group_of_q4_k_is_sixteen_bytes_of_its_own(make_quantized: MakeQuantized) -> None:
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
def test_repacking_nf4_loses_nothing(columns: int) -> None:
    weight = quantize_nf4(torch.randn(19, columns))
    repacked = repack_nf4(weight)
    assert repacked.shape == weight.shape
    assert repacked.data.shape[1] % 16 == 0
    back = unpack_nf4(repacked)
    assert torch.equal(back.codes, weight.codes)
    assert torch.equal(back.absmax, weight.absmax)


def test_nf4_in_other_blocks_is_refused() -> None:
    for weight in (
        quantize_nf4(torch.randn(4, 256), block_size=128),
        quantize_nf4(torch.randn(4, 256), double_quantization=False),
    ):
        with pytest.raises(ValueError, match="blocks of 64 whose scales are bytes"):
            repack_nf4(weight)
