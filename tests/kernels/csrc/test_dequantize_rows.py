"""csrc/dequantize_rows.cuh on the CPU, bit for bit against plain torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.formats.codecs import PACKERS
from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.nf4 import quantize_nf4
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import NF4Tensor, QuantizedTensor, RepackedTensor
from ingle.kernels.matmul.dequantize_rows import DequantizeRows

MakeLibrary = Callable[..., CPUKernelLibrary]
MakeQuantized = Callable[..., QuantizedTensor]
MakeWeight = Callable[..., tuple[torch.Tensor, RepackedTensor]]

KINDS = [*sorted(PACKERS), "NF4"]
# A part of a tile; whole tiles; whole tiles and a part; more than one thread block.
WIDTHS = {
    "NF4": (64, 1024, 1216, 4160),
    **dict.fromkeys(("G4_64", "G4_128"), (128, 1024, 1152, 4224)),
}
SUPER, SMALL = (256, 1024, 1280, 4352), (32, 1024, 1184, 4128)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def widths(kind: str) -> tuple[int, ...]:
    return WIDTHS.get(kind) or (SUPER if kind.endswith("K") else SMALL)


@pytest.fixture
def make_weight(make_quantized: MakeQuantized) -> MakeWeight:
    """Return a factory of weights for the kernels, and their values in plain torch."""

    def make(kind: str, rows: int, columns: int) -> tuple[torch.Tensor, RepackedTensor]:
        if kind == "NF4":
            generator = torch.Generator().manual_seed(columns)
            weight: NF4Tensor = quantize_nf4(torch.randn(rows, columns, generator=generator))
            return dequantize(weight), repack(weight)
        plain = make_quantized(kind, rows, columns, seed=columns, tame=True)
        return dequantize(plain), repack(plain)

    return make


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Compare bits, including the signs of zeros."""
    return torch.equal(found.view(torch.uint8), expected.contiguous().view(torch.uint8))


@pytest.mark.parametrize("kind", KINDS)
def test_consecutive_rows(make_library: MakeLibrary, make_weight: MakeWeight, kind: str) -> None:
    dequantize_rows = DequantizeRows(make_library(seed=3))
    for columns in widths(kind):
        values, weight = make_weight(kind, 7, columns)
        for dtype in DTYPES:
            out = torch.full((4, columns), torch.nan, dtype=dtype)
            dequantize_rows.following(weight, 2, out)
            assert same(out, values[2:6].to(dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_by_id(make_library: MakeLibrary, make_weight: MakeWeight, kind: str) -> None:
    dequantize_rows = DequantizeRows(make_library(seed=4))
    values, weight = make_weight(kind, 7, widths(kind)[2])
    ids = torch.tensor([6, 0, 3, 3, 6])
    assert same(dequantize_rows.gather(weight, ids), values[ids])
    scaled = dequantize_rows.gather(weight, ids, scale=48.4)
    assert same(scaled, values[ids] * torch.tensor(48.4))
    halves = dequantize_rows.gather(weight, ids, scale=48.4, dtype=torch.bfloat16)
    assert same(halves, scaled.bfloat16())


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_a_plain_matrix(make_library: MakeLibrary, dtype: torch.dtype) -> None:
    table = torch.randn(5, 144, generator=torch.Generator().manual_seed(1)).to(dtype)
    ids = torch.tensor([4, -1, 0, 5])
    found = DequantizeRows(make_library()).gather(table, ids, scale=0.3)
    expected = table.float()[ids.clamp(0, 4)] * torch.tensor(0.3)
    expected[[1, 3]] = 0
    assert same(found, expected)


@pytest.mark.parametrize("kind", ["Q4_K", "NF4"])
def test_invalid_row_ids_give_zeros(
    make_library: MakeLibrary, make_weight: MakeWeight, kind: str
) -> None:
    values, weight = make_weight(kind, 3, 256)
    ids = torch.tensor([3, -1, 1, 1 << 40, -(1 << 63)])
    found = DequantizeRows(make_library()).gather(weight, ids)
    assert same(found[2], values[1])
    assert (found[[0, 1, 3, 4]] == 0).all()


def test_nan_scale_stays_visible(make_library: MakeLibrary, make_quantized: MakeQuantized) -> None:
    plain = make_quantized("Q4_K", 1, 512, tame=True)
    plain.data[0, 144:146] = torch.tensor([0, 0x7E], dtype=torch.uint8)  # a NaN scale
    out = DequantizeRows(make_library()).following(
        repack(plain), 0, torch.empty(1, 512, dtype=torch.float16)
    )
    assert out[0, :256].isfinite().all()
    assert out[0, 256:].isnan().all()


def test_large_values_become_infinite_in_half_precision(make_library: MakeLibrary) -> None:
    table = torch.full((1, 16), 65519.0)
    table[0, 8:] = 65520.0
    ids = torch.zeros(1, dtype=torch.int64)
    found = DequantizeRows(make_library()).gather(table, ids, dtype=torch.float16)
    assert same(found, table.half())


def test_offsets_of_large_matrices(make_library: MakeLibrary) -> None:
    """The end of 3 GiB, of which only the touched pages are allocated."""
    rows, columns = 12_000_000, 256
    table = torch.empty(rows, columns, dtype=torch.uint8).view(torch.bfloat16)
    table[-1] = torch.arange(columns // 2)
    ids = torch.tensor([rows - 1])
    found = DequantizeRows(make_library()).gather(table, ids)
    assert same(found, table[-1:].float())


def test_invalid_shapes_are_rejected(make_library: MakeLibrary, make_weight: MakeWeight) -> None:
    dequantize_rows = DequantizeRows(make_library())
    _, weight = make_weight("Q4_K", 4, 256)
    with pytest.raises(ValueError, match="no 3 rows from 2 on among 4"):
        dequantize_rows.following(weight, 2, torch.empty(3, 256))
    with pytest.raises(ValueError, match="do not fit"):
        dequantize_rows.following(weight, 0, torch.empty(4, 512)[:, ::2])
    with pytest.raises(ValueError, match="int64"):
        dequantize_rows.gather(weight, torch.zeros(1, dtype=torch.int32))
    with pytest.raises(ValueError, match="Rows of 40 bytes"):
        dequantize_rows.gather(torch.zeros(2, 20).half(), torch.zeros(1, dtype=torch.int64))
    assert dequantize_rows.gather(weight, torch.zeros(0, dtype=torch.int64)).shape == (0, 256)
