"""csrc/gemm.cuh on the CPU against exact integer arithmetic and plain floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from kernel_harness.host_build import HostModule, build_host_library
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.build.kernel_source import kernel_source
from ingle.kernels.elementwise.activations import TILE, dequantize_q8, quantize_q8_reference
from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.nf4 import dequantize_nf4_blocks, quantize_nf4
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import NF4Tensor, QuantizedTensor
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS
from ingle.kernels.launch.cuda_driver import Argument, Grid
from ingle.kernels.matmul.quantized_gemm import GEMM_SHAPES, GemmPlan, QuantizedGemm
from ingle.kernels.matmul.quantized_gemv import quantized_gemv_reference

MakeLibrary = Callable[..., CPUKernelLibrary]
MakeQuantized = Callable[..., QuantizedTensor]

KINDS = ["Q4_K", "Q6_K"]
# Rows and columns that fill no block, super-blocks that fill no tile; one block for each tile,
# blocks that share tiles, blocks with parts of two tiles.
CASES = [
    (1, 256, 1, GemmPlan(8, 1)),
    (37, 2816, 7, GemmPlan(8, 5)),
    (130, 1280, 9, GemmPlan(16, 7)),
    (5, 512, 40, GemmPlan(16, 1)),
    (130, 1280, 20, GemmPlan(32, 3)),
    (257, 768, 33, GemmPlan(64, 4)),
    (140, 512, 130, GemmPlan(128, 3)),
    (130, 1280, 9, GemmPlan(8, 7, few_stages=True)),
    (37, 768, 20, GemmPlan(16, 2, few_stages=True)),
    (130, 768, 40, GemmPlan(32, 3, few_stages=True)),
]


class OneModule:
    """A library with a single module, used for every source."""

    architecture, num_sms = "host", 132

    def __init__(self, module: HostModule) -> None:
        self._module = module

    def launch(
        self,
        source: str,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        overlap: bool = True,
    ) -> None:
        """See `KernelLibrary`."""
        del source, overlap
        self._module.launch(kernel, grid, block, arguments, shared_bytes=shared_bytes)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the relative error in the Euclidean norm; NaN if a value is missing."""
    return float(((found.double() - expected) ** 2).sum().sqrt() / (expected**2).sum().sqrt())


def vectors(columns: int, inputs: int) -> torch.Tensor:
    return torch.randn(columns, inputs, generator=torch.Generator().manual_seed(columns))


def poisoned_tiles(x: torch.Tensor) -> torch.Tensor:
    """Quantise, with NaN in the last tile beyond the inputs."""
    columns, inputs = x.shape
    tiles = quantize_q8_reference(x)
    groups = inputs % TILE // 32
    if groups:
        parts = tiles[-1].view(columns, 3, 32, 16)
        parts[:, :, groups:] = 0xFF
    return tiles


def products(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full((columns, rows), float("nan"), dtype=dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "inputs", "columns", "plan"), CASES)
def test_products_of_any_shape(
    make_library: MakeLibrary, make_quantized: MakeQuantized, kind: str, rows: int, inputs: int,
    columns: int, plan: GemmPlan,
) -> None:  # fmt: skip
    weight, x = make_quantized(kind, rows, inputs, tame=True), vectors(columns, inputs)
    gemm, tiles = QuantizedGemm(make_library(seed=columns)), poisoned_tiles(x)
    found = gemm.multiply(repack(weight), tiles, products(rows, columns), plan=plan)
    assert error(found, quantized_gemv_reference(weight, tiles)) < 1e-6
    exact = x.double() @ dequantize(weight).double().T
    if rows > 1:  # the terms of a single product may cancel
        assert error(found, exact) ** 2 < 5e-4


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        *(("Q5_K", 1280), ("Q8_0", 1376), ("Q4_0", 160), ("Q4_1", 1120), ("Q5_0", 1248)),
        *(("Q5_1", 2080), ("G4_32", 1120), ("G4_64", 1216), ("G4_128", 1152)),
    ],
)
def test_other_types(
    make_library: MakeLibrary, make_quantized: MakeQuantized, kind: str, inputs: int
) -> None:
    """Blocks of 32 fill no slab and leave an odd number of scales."""
    library = make_library(seed=inputs, gemm="VARIANT(8, 1, 1, 4) VARIANT(32, 4, 1, 3)")
    for rows, columns, plan in ((37, 5, GemmPlan(8, 3)), (130, 30, GemmPlan(32, 1))):
        weight, x = make_quantized(kind, rows, inputs, tame=True), vectors(columns, inputs)
        tiles, out = poisoned_tiles(x), products(rows, columns)
        QuantizedGemm(library).multiply(repack(weight), tiles, out, plan=plan)
        assert error(out, quantized_gemv_reference(weight, tiles)) < 1e-6
        exact = x.double() @ dequantize(weight).double().T
        assert error(out, exact) ** 2 < 5e-4


@pytest.mark.parametrize("blocks", range(1, 12))
def test_any_number_of_blocks(
    make_library: MakeLibrary, make_quantized: MakeQuantized, blocks: int
) -> None:
    """Two tiles of ten slabs: shares begin and end everywhere, and nothing is left over."""
    weight, tiles = make_quantized("Q4_K", 150, 1280, tame=True), poisoned_tiles(vectors(6, 1280))
    gemm, packed = QuantizedGemm(make_library()), repack(weight)
    first = gemm.multiply(packed, tiles, products(150, 6), plan=GemmPlan(8, blocks))
    again = gemm.multiply(packed, tiles, products(150, 6), plan=GemmPlan(8, blocks))
    assert error(first, quantized_gemv_reference(weight, tiles)) < 1e-6
    assert torch.equal(first, again)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_outputs_in_wider_rows_with_biases(
    make_library: MakeLibrary, make_quantized: MakeQuantized, dtype: torch.dtype
) -> None:
    weight, tiles = make_quantized("Q4_K", 70, 512, tame=True), poisoned_tiles(vectors(18, 512))
    bias, wide = torch.randn(70), products(100, 18, dtype)
    out = wide[:, 20:90]
    QuantizedGemm(make_library()).multiply(repack(weight), tiles, out, bias=bias)
    expected = (quantized_gemv_reference(weight, tiles) + bias).float().to(dtype)
    # A product may cancel against its bias: what is left has the errors of its terms.
    rtol = 1e-2 if dtype == torch.bfloat16 else 1e-3
    assert torch.allclose(out, expected, rtol=rtol, atol=1e-5)
    assert bool(wide[:, :20].isnan().all() and wide[:, 90:].isnan().all())


def test_products_are_added_to_a_residual(
    make_library: MakeLibrary, make_quantized: MakeQuantized
) -> None:
    weight, tiles = make_quantized("Q6_K", 140, 768, tame=True), poisoned_tiles(vectors(11, 768))
    bias, residual = torch.randn(140), torch.randn(11, 140)
    expected = residual + 0.25 * (quantized_gemv_reference(weight, tiles) + bias)
    QuantizedGemm(make_library(seed=3)).multiply(
        repack(weight), tiles, residual, bias=bias, add=0.25
    )
    assert error(residual, expected) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_blocks(make_library: MakeLibrary, kind: str) -> None:
    """The largest quants, scales and activations at once: integer sums stay exact as floats."""
    size = {"Q4_K": 144, "Q6_K": 210}[kind]
    for byte in (0xFF, 0x80, 0x7F, 0x00):
        blocks = torch.full((4, 4 * size), byte, dtype=torch.uint8)
        one = torch.tensor([0x00, 0x3C], dtype=torch.uint8)
        for start in range(0, 4 * size, size):
            for place in (0, 2) if kind == "Q4_K" else (208,):
                blocks[:, start + place : start + place + 2] = one
        weight = QuantizedTensor(kind, blocks, 1024)
        tiles = quantize_q8_reference(torch.tensor([[-3.0], [3.0]]).repeat(6, 1024))
        found = QuantizedGemm(make_library()).multiply(repack(weight), tiles, products(4, 12))
        expected = quantized_gemv_reference(weight, tiles)
        assert float((found - expected).abs().max()) <= 1e-6 * float(expected.abs().max())


def test_nan_stays_in_its_column(make_library: MakeLibrary, make_quantized: MakeQuantized) -> None:
    x = vectors(9, 512)
    x[4, 100] = float("nan")
    weight, tiles = make_quantized("Q4_K", 20, 512, tame=True), quantize_q8_reference(x)
    found = QuantizedGemm(make_library()).multiply(repack(weight), tiles, products(20, 9))
    expected = (torch.arange(9) == 4)[:, None].expand(9, 20)
    assert torch.equal(found.isnan(), expected)


def normal(rows: int, inputs: int) -> NF4Tensor:
    generator = torch.Generator().manual_seed(rows)
    return quantize_nf4(torch.randn(rows, inputs, generator=generator) * 0.02)


def with_rounded_values(weight: NF4Tensor, tiles: torch.Tensor) -> torch.Tensor:
    """Return the kernel's weights, with a byte for each of the sixteen values."""
    ones = torch.ones(weight.absmax.numel())
    codes = dequantize_nf4_blocks(weight.codes, ones, weight.codes.numel() * 2).double()
    values = (codes * 112.03).round() / 112.03
    matrix = values.view(weight.shape) * weight.scales().double().repeat_interleave(64, 1)
    return dequantize_q8(tiles, weight.shape[1]) @ matrix.T


@pytest.mark.parametrize(
    ("rows", "inputs", "columns", "plan"),
    [
        (1, 64, 3, GemmPlan(8, 1)),
        (37, 1344, 10, GemmPlan(16, 4)),
        (300, 1088, 30, GemmPlan(32, 7)),
        (130, 2240, 65, GemmPlan(128, 2)),
    ],
)
def test_nf4(
    make_library: MakeLibrary, rows: int, inputs: int, columns: int, plan: GemmPlan
) -> None:
    weight, x = normal(rows, inputs), vectors(columns, inputs)
    tiles = poisoned_tiles(x)
    gemm = QuantizedGemm(make_library(seed=rows))
    found = gemm.multiply(repack(weight), tiles, products(rows, columns), plan=plan)
    assert error(found, with_rounded_values(weight, tiles)) < 1e-6
    if rows > 1:
        assert error(found, x.double() @ dequantize(weight).double().T) ** 2 < 5e-4


def test_plans(make_library: MakeLibrary, make_quantized: MakeQuantized) -> None:
    gemm = QuantizedGemm(make_library(num_sms=128))
    weight = repack(make_quantized("Q4_K", 512, 4096))
    chosen = {columns: gemm.plan(weight, columns).columns for columns in (5, 9, 16, 17, 40, 70)}
    assert chosen == {5: 8, 9: 16, 16: 16, 17: 32, 40: 64, 70: 32}
    # Every block has at least four slabs; there are no more blocks than run concurrently.
    assert gemm.plan(weight, 64) == GemmPlan(64, 32)
    assert gemm.plan(weight, 4096).blocks == 128 * GEMM_SHAPES[128].blocks
    dear = QuantizedGemm(make_library(), costs={16: 1, 64: 3})
    assert dear.plan(weight, 40) == GemmPlan(16, 96, few_stages=True)


@pytest.mark.parametrize("kind", KINDS)
def test_several_blocks_share_an_sm_of_every_gpu(
    make_library: MakeLibrary, make_quantized: MakeQuantized, kind: str
) -> None:
    """With fewer stages where an SM has 100 KB of shared memory for them."""
    library, weight = make_library(num_sms=82), repack(make_quantized(kind, 8192, 4096))
    source = weight.format.kernel
    for architecture, few in (("sm_86", True), ("sm_89", True), ("sm_120", True), ("sm_90", False)):
        library.architecture = architecture
        for columns in (8, 16, 32):
            plan = QuantizedGemm(library).plan(weight, columns)
            assert plan.few_stages is few
            assert plan.blocks >= 2 * 82
            shape = GEMM_SHAPES[plan.columns]
            room = (228 if architecture == "sm_90" else 100) << 10
            chosen = shape.few_stages if few else shape
            each = chosen.shared_bytes(source) + (1 << 10)
            assert plan.blocks // 82 * each <= room
        plan = QuantizedGemm(library, few_stages=False).plan(weight, 8)
        assert not plan.few_stages


def test_blocks_fit_into_every_sm() -> None:
    for source in (form.kernel for form in WEIGHT_FORMATS.values() if form.has_kernels):
        for shape in GEMM_SHAPES.values():
            assert shape.resident_blocks(source, "sm_89") >= 1
            assert shape.resident_blocks(source, "sm_90") >= min(shape.blocks, 2)


def test_invalid_shapes_are_rejected(
    make_library: MakeLibrary, make_quantized: MakeQuantized
) -> None:
    gemm, weight = QuantizedGemm(make_library()), repack(make_quantized("Q4_K", 4, 512, tame=True))
    tiles = quantize_q8_reference(vectors(9, 512))
    with pytest.raises(ValueError, match=r"do not fit \(9, 5\)"):
        gemm.multiply(weight, tiles, torch.empty(9, 5))
    with pytest.raises(ValueError, match="do not fit 512 inputs"):
        gemm.multiply(weight, quantize_q8_reference(vectors(9, 2048)), torch.empty(9, 4))
    with pytest.raises(ValueError, match="no room for the sums of 5000 blocks"):
        gemm.multiply(weight, tiles, torch.empty(9, 4), plan=GemmPlan(16, 5000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("wait_for_copies<STAGES - 2>();", "wait_for_copies<STAGES - 1>();"),
        ("__syncthreads();  // this slab is there", "// this slab is there"),
    ],
)
def test_missing_wait_or_barrier_is_detected(
    build_folder: Path, make_quantized: MakeQuantized, tmp_path: Path, right: str, wrong: str
) -> None:
    """Copies complete as late as allowed, and threads run in any order."""
    text = kernel_source("q4_k_gemm.cuh", {"GEMM_VARIANTS": "VARIANT(16, 2, 1, 4)"})
    assert text.count(right) == 1
    broken = tmp_path / "broken_gemm.cuh"
    broken.write_text(text.replace(right, wrong))
    module = HostModule(build_host_library(str(broken), build_folder), seed=1)
    weight, tiles = make_quantized("Q4_K", 128, 2048, tame=True), poisoned_tiles(vectors(9, 2048))
    out = products(128, 9)
    QuantizedGemm(OneModule(module)).multiply(repack(weight), tiles, out, plan=GemmPlan(16, 1))
    assert not error(out, quantized_gemv_reference(weight, tiles)) < 1e-3
