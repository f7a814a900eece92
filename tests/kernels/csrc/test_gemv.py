"""csrc/gemv.cuh on the CPU against exact integer arithmetic and plain floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants

from ingle.kernels.elementwise.activations import dequantize_q8
from ingle.kernels.formats.codecs import PACKERS
from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.nf4 import NF4_VALUES, dequantize_nf4_blocks, quantize_nf4
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import NF4Tensor, QuantizedTensor, RepackedTensor
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS
from ingle.kernels.matmul.quantized_gemv import GemvVariant, QuantizedGemv, quantized_gemv_reference

MakeGemv = Callable[..., QuantizedGemv]
MakeQuantized = Callable[..., QuantizedTensor]

KINDS = sorted(PACKERS)
SUPER_BLOCKS = [kind for kind in KINDS if kind.endswith("K")]
GROUPED = [kind for kind in KINDS if kind.startswith("G4")]
SMALL_BLOCKS = [kind for kind in KINDS if kind not in (*SUPER_BLOCKS, *GROUPED)]
# Numbers of rows that are no multiple of a block's; blocks that fill tiles, and that do not.
SHAPES = [(1, 256), (37, 1280), (5, 4096), (130, 2816), (9, 768)]
SMALL_SHAPES = [(1, 32), (37, 896), (5, 4096), (18, 1568), (9, 1056)]
CASES = [
    *((kind, *shape) for kind in SUPER_BLOCKS for shape in SHAPES),
    *((kind, *shape) for kind in SMALL_BLOCKS for shape in SMALL_SHAPES),
    *((kind, *shape) for kind in GROUPED for shape in [(37, 1280), (9, 1152)]),
]


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the relative error in the Euclidean norm; NaN if a value is missing."""
    return float(((found.double() - expected) ** 2).sum().sqrt() / (expected**2).sum().sqrt())


def vectors(columns: int, inputs: int) -> torch.Tensor:
    return torch.randn(columns, inputs, generator=torch.Generator().manual_seed(columns))


def multiply(
    gemv: QuantizedGemv,
    weight: RepackedTensor,
    tiles: torch.Tensor,
    split: int = 1,
    dtype: torch.dtype = torch.float32,
    *,
    bias: torch.Tensor | None = None,
    exact: bool = False,
) -> torch.Tensor:
    out = torch.full((tiles.shape[1], weight.shape[0]), float("nan"), dtype=dtype)
    variant = GemvVariant(2, split)
    return gemv.multiply(weight, tiles, out, bias=bias, variant=variant, exact=exact)


@pytest.mark.parametrize(("kind", "rows", "inputs"), CASES)
@pytest.mark.parametrize(("columns", "split"), [(1, 1), (1, 4), (3, 4), (8, 1), (8, 4)])
def test_products_of_any_shape(
    make_gemv: MakeGemv, make_quantized: MakeQuantized, kind: str, rows: int, inputs: int,
    columns: int, split: int,
) -> None:  # fmt: skip
    weight = make_quantized(kind, rows, inputs, tame=True)
    x, gemv = vectors(columns, inputs), make_gemv(seed=columns + split)
    tiles = gemv.quantize(x)
    found = multiply(gemv, repack(weight), tiles, split)
    assert error(found, quantized_gemv_reference(weight, tiles)) < 1e-6
    exact = x.double() @ dequantize(weight).double().T
    if rows > 1:  # the terms of a single product may cancel
        assert error(found, exact) ** 2 < 5e-4


@pytest.mark.parametrize("variant", [(1, 1), (1, 2), (4, 2), (4, 4)])
def test_other_tuning_variants(
    make_gemv: MakeGemv, make_quantized: MakeQuantized, variant: tuple[int, int]
) -> None:
    text = "VARIANT(1, 3, 1) VARIANT(1, 3, 2) VARIANT(4, 3, 2) VARIANT(4, 3, 4)"
    gemv = make_gemv(seed=2, variants={"GEMV_VARIANTS": text})
    weight = make_quantized("Q4_K", 21, 2304, tame=True)
    tiles, out = gemv.quantize(vectors(3, 2304)), torch.full((3, 21), float("nan"))
    gemv.multiply(repack(weight), tiles, out, variant=GemvVariant(*variant))
    assert error(out, quantized_gemv_reference(weight, tiles)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("columns", range(1, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_columns(
    make_gemv: MakeGemv, make_quantized: MakeQuantized, kind: str, columns: int
) -> None:
    weight, gemv = make_quantized(kind, 7, 1536, tame=True), make_gemv()
    tiles = gemv.quantize(vectors(columns, 1536))
    found = multiply(gemv, repack(weight), tiles)
    assert error(found, quantized_gemv_reference(weight, tiles)) < 1e-6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in GROUPED])
def test_reference_agrees_with_gguf(
    make_gemv: MakeGemv, make_quantized: MakeQuantized, kind: str
) -> None:
    weight, gemv = make_quantized(kind, 24, 2304, tame=True), make_gemv()
    tiles = gemv.quantize(vectors(2, 2304))
    theirs = quants.dequantize(weight.data.numpy(), GGMLQuantizationType[kind])
    expected = dequantize_q8(tiles, 2304).numpy() @ np.asarray(theirs, np.float64).T
    found = multiply(gemv, repack(weight), tiles)
    assert error(found, torch.as_tensor(expected)) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_blocks(make_gemv: MakeGemv, kind: str) -> None:
    """The largest quants, scales and activations at once: no integer sum overflows."""
    block = WEIGHT_FORMATS[kind]
    places = (208,) if kind == "Q6_K" else (0,) if kind.endswith("_0") else (0, 2)
    for byte in (0xFF, 0x80, 0x7F, 0x00):
        blocks = torch.full(
            (4, 1024 // block.block_elements, block.block_bytes), byte, dtype=torch.uint8
        )
        for place in places if kind not in GROUPED else ():
            blocks[..., place : place + 2] = torch.tensor([0x00, 0x3C], dtype=torch.uint8)
        if kind in GROUPED:  # the code of zero is the last byte of the scale
            blocks[..., -3:] = torch.tensor([0x00, 0x80, 0x3F], dtype=torch.uint8)
        weight, gemv = QuantizedTensor(kind, blocks.view(4, -1), 1024), make_gemv()
        tiles = gemv.quantize(torch.full((1, 1024), -3.0))
        found = multiply(gemv, repack(weight), tiles)
        expected = quantized_gemv_reference(weight, tiles)
        assert float((found - expected).abs().max()) <= 1e-6 * float(expected.abs().max())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_output_dtypes_and_biases(
    make_gemv: MakeGemv, make_quantized: MakeQuantized, dtype: torch.dtype
) -> None:
    weight, gemv = make_quantized("Q4_K", 11, 512, tame=True), make_gemv()
    tiles, bias = gemv.quantize(vectors(2, 512)), torch.randn(11)
    expected = (quantized_gemv_reference(weight, tiles) + bias).float().to(dtype)
    found = multiply(gemv, repack(weight), tiles, dtype=dtype, bias=bias)
    # A product may cancel against its bias: what is left has the errors of its terms.
    rtol = 1e-2 if dtype == torch.bfloat16 else 1e-3
    assert torch.allclose(found, expected, rtol=rtol, atol=1e-5)


def test_outputs_in_wider_rows(make_gemv: MakeGemv, make_quantized: MakeQuantized) -> None:
    """Several matrices write into the rows of one tensor, and nowhere else."""
    gemv, wide = make_gemv(seed=3), torch.full((3, 40), -7.0)
    first = make_quantized("Q4_K", 11, 512, seed=1, tame=True)
    second = make_quantized("Q6_K", 21, 512, seed=2, tame=True)
    tiles = gemv.quantize(vectors(3, 512))
    gemv.multiply(repack(first), tiles, wide[:, 2:13])
    gemv.multiply(repack(second), tiles, wide[:, 13:34], bias=torch.ones(21))
    assert error(wide[:, 2:13], quantized_gemv_reference(first, tiles)) < 1e-6
    assert error(wide[:, 13:34], quantized_gemv_reference(second, tiles) + 1) < 1e-6
    assert bool((wide[:, :2] == -7).all())
    assert bool((wide[:, 34:] == -7).all())


@pytest.mark.parametrize("split", [1, 4])
@pytest.mark.parametrize("biased", [False, True])
def test_products_are_added_to_a_residual(
    make_gemv: MakeGemv, make_quantized: MakeQuantized, split: int, biased: bool
) -> None:
    weight, gemv = make_quantized("Q4_K", 37, 1280, tame=True), make_gemv(seed=4)
    tiles, before = gemv.quantize(vectors(3, 1280)), torch.randn(3, 37)
    bias = torch.randn(37) if biased else None
    residual, wide = before.clone(), torch.cat((before, torch.full((3, 3), -7.0)), dim=1)
    products = torch.empty(3, 37)
    variant = GemvVariant(2, split)
    gemv.multiply(repack(weight), tiles, products, bias=bias, variant=variant)
    for target in (residual, wide[:, :37]):
        gemv.multiply(repack(weight), tiles, target, bias=bias, add=0.3, variant=variant)
        assert torch.equal(target, before + torch.tensor(0.3) * products)
    assert bool((wide[:, 37:] == -7).all())


def normal(rows: int, inputs: int) -> NF4Tensor:
    generator = torch.Generator().manual_seed(rows)
    return quantize_nf4(torch.randn(rows, inputs, generator=generator) * 0.02)


def emulated(weight: NF4Tensor, tiles: torch.Tensor, scale: float) -> torch.Tensor:
    """Return the kernel's weights, with the sixteen values rounded at `scale`."""
    ones = torch.ones(weight.absmax.numel())
    codes = dequantize_nf4_blocks(weight.codes, ones, weight.codes.numel() * 2).double()
    values = (codes * scale).round() / scale
    matrix = values.view(weight.shape) * weight.scales().double().repeat_interleave(64, 1)
    return dequantize_q8(tiles, weight.shape[1]) @ matrix.T


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "inputs"), [(1, 64), (37, 1344), (9, 4096), (300, 1088)])
@pytest.mark.parametrize(("columns", "split"), [(1, 1), (3, 4), (8, 1)])
def test_nf4(make_gemv: MakeGemv, rows: int, inputs: int, columns: int, split: int) -> None:
    weight, gemv, x = normal(rows, inputs), make_gemv(seed=rows), vectors(columns, inputs)
    tiles = gemv.quantize(x)
    float_products = x.double() @ dequantize(weight).double().T
    for exact, scale in ((False, 112.03), (True, 32512)):
        found = multiply(gemv, repack(weight), tiles, split, exact=exact)
        assert error(found, emulated(weight, tiles, scale)) < 1e-6
        if rows > 1:
            assert error(found, float_products) ** 2 < 5e-4
    assert error(found, quantized_gemv_reference(weight, tiles)) < 1e-3


@pytest.mark.parametrize(("exact", "tolerance"), [(False, 4.5e-3), (True, 3e-5)])
def test_nf4_tables_contain_the_exact_values(
    make_gemv: MakeGemv, exact: bool, tolerance: float
) -> None:
    codes = torch.arange(32, dtype=torch.uint8).repeat(4, 1) % 16
    weight = quantize_nf4(torch.tensor(NF4_VALUES).repeat(4, 4))
    assert torch.equal(weight.codes[0, :8] >> 4, codes[0, 0:16:2])
    gemv, unit = make_gemv(), torch.zeros(8, 64)
    for start in (0, 8):
        unit.zero_()
        unit[torch.arange(8), torch.arange(start, start + 8)] = 1
        found = multiply(gemv, repack(weight), gemv.quantize(unit), exact=exact)[:, 0]
        wanted = torch.tensor(NF4_VALUES[start : start + 8])
        assert float((found - wanted).abs().max()) < tolerance


def test_few_rows_are_split_between_warps(make_gemv: MakeGemv) -> None:
    gemv = make_gemv(num_sms=132)
    assert gemv.variant(1024) == GemvVariant(2, 4)
    assert gemv.variant(14336) == GemvVariant(2, 1)


def test_invalid_shapes_are_rejected(make_gemv: MakeGemv, make_quantized: MakeQuantized) -> None:
    weight, gemv = repack(make_quantized("Q4_K", 4, 512, tame=True)), make_gemv()
    tiles = gemv.quantize(vectors(2, 512))
    with pytest.raises(ValueError, match=r"do not fit \(2, 5\)"):
        gemv.multiply(weight, tiles, torch.empty(2, 5))
    with pytest.raises(ValueError, match=r"do not fit \(2, 4\) of strides \(1, 2\)"):
        gemv.multiply(weight, tiles, torch.empty(4, 2).T)
    with pytest.raises(ValueError, match=r"\(5,\) torch.float32 is no bias of 4 rows"):
        gemv.multiply(weight, tiles, torch.empty(2, 4), bias=torch.zeros(5))
    with pytest.raises(ValueError, match="A residual stream is float32"):
        gemv.multiply(weight, tiles, torch.empty(2, 4, dtype=torch.float16), add=1.0)
    with pytest.raises(ValueError, match="do not fit 512 inputs"):
        gemv.multiply(weight, gemv.quantize(vectors(9, 512)), torch.empty(9, 4))
    with pytest.raises(ValueError, match="type Q3_K have no layout"):
        repack(QuantizedTensor("Q3_K", torch.zeros(1, 110, dtype=torch.uint8), 256))
