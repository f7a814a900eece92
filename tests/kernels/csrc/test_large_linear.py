"""Products with many rows, whose weights are dequantised in parts by kernels on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.matmul.dequantize_rows import DequantizedGemm

MakeLibrary = Callable[..., CPUKernelLibrary]
MakeQuantized = Callable[..., QuantizedTensor]
CPU = torch.device("cpu")


@pytest.mark.parametrize("rows_at_once", [1, 7, 300, 1000])
def test_product_in_parts_equals_the_whole(
    make_library: MakeLibrary, make_quantized: MakeQuantized, rows_at_once: int
) -> None:
    weight = make_quantized("Q4_K", 531, 256, tame=True)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(9, 256, generator=generator).bfloat16()
    bias = torch.randn(531, generator=generator)
    large = DequantizedGemm(
        make_library(), torch.bfloat16, CPU, scratch_bytes=rows_at_once * 256 * 2 + 1
    )
    wide = torch.full((9, 600), torch.nan, dtype=torch.bfloat16)
    found = large(x, repack(weight), bias, wide[:, 40:571])
    exact = x.double() @ dequantize(weight, torch.bfloat16).double().T + bias
    assert found.data_ptr() == wide[:, 40:].data_ptr()
    assert wide[:, :40].isnan().all()
    assert wide[:, 571:].isnan().all()
    assert ((found - exact) ** 2).sum() < 1.6e-5 * (exact**2).sum()
    plain = large(x, repack(weight))
    assert torch.equal(plain, x @ dequantize(weight, torch.bfloat16).T)


def test_buffer_must_hold_at_least_one_row(
    make_library: MakeLibrary, make_quantized: MakeQuantized
) -> None:
    large = DequantizedGemm(make_library(), torch.float16, CPU, scratch_bytes=511)
    with pytest.raises(ValueError, match="no room for a row of 256"):
        large(torch.zeros(2, 256).half(), repack(make_quantized("Q4_K", 3, 256)))
