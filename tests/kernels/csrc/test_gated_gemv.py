from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import (
    ActivationForms,
    dequantize_q8,
    q8_groups,
    quantize_q8_reference,
)
from ingle.kernels.elementwise.gated_activation import (
    GATES,
    GateActivation,
    gated_activation_reference,
)
from ingle.kernels.formats.nf4 import dequantize_nf4_blocks, quantize_nf4
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import NF4Tensor, QuantizedTensor
from ingle.kernels.matmul.gated_gemv import GatedGemv, can_fuse
from ingle.kernels.matmul.linear import GatedLayer
from ingle.kernels.matmul.quantized_gemv import quantized_gemv_reference

MakeLibrary = Callable[..., CPUKernelLibrary]
MakeQuantized = Callable[..., QuantizedTensor]
BOTH = ActivationForms(torch.float32, tiles=True)


def tiles_of(columns: int, inputs: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(columns)
    return quantize_q8_reference(torch.randn(columns, inputs, generator=generator))


def pair(
    make_quantized: MakeQuantized, kind: str, rows: int, inputs: int
) -> tuple[QuantizedTensor, QuantizedTensor]:
    first, second = (make_quantized(kind, rows, inputs, seed, tame=True) for seed in (1, 2))
    return first, second


def expected(
    gate: QuantizedTensor, up: QuantizedTensor, tiles: torch.Tensor, activation: GateActivation
) -> torch.Tensor:
    return gated_activation_reference(
        quantized_gemv_reference(gate, tiles), quantized_gemv_reference(up, tiles), activation
    )


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(((found.double() - wanted) ** 2).sum().sqrt() / (wanted**2).sum().sqrt())


@pytest.mark.slow
@pytest.mark.parametrize("activation", sorted(GATES))
@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K"])
@pytest.mark.parametrize(("rows", "inputs"), [(32, 256), (96, 1280), (1056, 512)])
@pytest.mark.parametrize(("columns", "split"), [(1, 1), (1, 4), (3, 4), (8, 1), (8, 4)])
def test_fused_gate_and_quantisation_in_one_launch(
    make_library: MakeLibrary, make_quantized: MakeQuantized,
    activation: GateActivation, kind: str, rows: int, inputs: int, columns: int, split: int,
) -> None:  # fmt: skip
    gate, up = pair(make_quantized, kind, rows, inputs)
    tiles, gemv = tiles_of(columns, inputs), GatedGemv(make_library(seed=columns + split))
    layer = GatedLayer(repack(gate), repack(up), activation)
    assert can_fuse(layer.gate, layer.up)
    for _ in range(2):  # counters are reset
        found = gemv.multiply(layer, tiles, BOTH, split=split)
        assert found.dense is not None
        assert found.tiles is not None
        assert error(found.dense, expected(gate, up, tiles, activation)) < 2e-6
        quantised = quantize_q8_reference(found.dense)
        assert torch.equal(q8_groups(found.tiles, rows), q8_groups(quantised, rows))


@pytest.mark.parametrize("kind", ["Q5_K", "Q8_0", "Q4_0", "G4_32", "G4_128"])
@pytest.mark.parametrize(("columns", "split"), [(1, 1), (3, 4), (8, 1)])
def test_other_types(
    make_library: MakeLibrary, make_quantized: MakeQuantized, kind: str, columns: int, split: int
) -> None:
    gate, up = pair(make_quantized, kind, 96, 1280)
    tiles, gemv = tiles_of(columns, 1280), GatedGemv(make_library(seed=3))
    layer = GatedLayer(repack(gate), repack(up), "silu")
    assert can_fuse(layer.gate, layer.up)
    found = gemv.multiply(layer, tiles, BOTH, split=split)
    assert found.dense is not None
    assert found.tiles is not None
    assert error(found.dense, expected(gate, up, tiles, "silu")) < 2e-6
    quantised = quantize_q8_reference(found.dense)
    assert torch.equal(q8_groups(found.tiles, 96), q8_groups(quantised, 96))


@pytest.mark.parametrize("columns", range(1, 9))
def test_every_number_of_columns(
    make_library: MakeLibrary, make_quantized: MakeQuantized, columns: int
) -> None:
    gate, up = pair(make_quantized, "Q4_K", 64, 512)
    tiles, gemv = tiles_of(columns, 512), GatedGemv(make_library())
    found = gemv.multiply(GatedLayer(repack(gate), repack(up), "silu"), tiles, BOTH)
    assert found.dense is not None
    assert found.tiles is not None
    assert error(found.dense, expected(gate, up, tiles, "silu")) < 2e-6
    quantised = quantize_q8_reference(found.dense)
    assert torch.equal(q8_groups(found.tiles, 64), q8_groups(quantised, 64))


@pytest.mark.parametrize("split", [1, 4])
def test_dense_outputs_of_any_size(
    make_library: MakeLibrary, make_quantized: MakeQuantized, split: int
) -> None:
    gate, up = pair(make_quantized, "Q4_K", 37, 768)
    tiles, gemv = tiles_of(3, 768), GatedGemv(make_library(seed=1))
    layer = GatedLayer(repack(gate), repack(up), "silu")
    exact = gemv.multiply(layer, tiles, ActivationForms(torch.float32), split=split)
    found = gemv.multiply(layer, tiles, ActivationForms(torch.bfloat16), split=split)
    assert exact.dense is not None
    assert found.dense is not None
    assert found.tiles is None
    assert torch.equal(found.dense, exact.dense.bfloat16())
    assert error(exact.dense, expected(gate, up, tiles, "silu")) < 2e-6


def test_biases(make_library: MakeLibrary, make_quantized: MakeQuantized) -> None:
    gate, up = pair(make_quantized, "Q4_K", 32, 512)
    tiles, biases = tiles_of(3, 512), (torch.randn(32), torch.randn(32))
    layer = GatedLayer(repack(gate), repack(up), "silu", *biases)
    found = GatedGemv(make_library()).multiply(layer, tiles, BOTH).dense
    assert found is not None
    products = (quantized_gemv_reference(each, tiles) for each in (gate, up))
    sums = [product + bias for product, bias in zip(products, biases, strict=True)]
    assert error(found, gated_activation_reference(sums[0], sums[1], "silu")) < 2e-6


def test_formats_without_a_common_kernel_are_rejected(
    make_library: MakeLibrary, make_quantized: MakeQuantized
) -> None:
    gate, up = (repack(make_quantized(kind, 64, 512, tame=True)) for kind in ("Q4_K", "Q6_K"))
    assert not can_fuse(gate, up)
    with pytest.raises(ValueError, match="has no partner"):
        GatedGemv(make_library()).multiply(GatedLayer(gate, up, "silu"), tiles_of(3, 512), BOTH)


def rounded(weight: NF4Tensor) -> torch.Tensor:
    """Return the matrix with the sixteen values rounded to bytes, in float64."""
    ones = torch.ones(weight.absmax.numel())
    codes = dequantize_nf4_blocks(weight.codes, ones, weight.codes.numel() * 2).double()
    values = (codes * 112.03).round() / 112.03
    return values.view(weight.shape) * weight.scales().double().repeat_interleave(64, 1)


@pytest.mark.parametrize(("rows", "inputs"), [(32, 64), (96, 1344), (352, 1088)])
@pytest.mark.parametrize(("columns", "split"), [(1, 1), (3, 4), (8, 1)])
def test_nf4(make_library: MakeLibrary, rows: int, inputs: int, columns: int, split: int) -> None:
    """Nested scales are specific to each matrix."""
    generator = torch.Generator().manual_seed(rows)
    gate, up = (
        quantize_nf4(torch.randn(rows, inputs, generator=generator) * size) for size in (0.05, 0.2)
    )
    tiles, gemv = tiles_of(columns, inputs), GatedGemv(make_library(seed=columns))
    layer = GatedLayer(repack(gate), repack(up), "silu")
    assert can_fuse(layer.gate, layer.up)
    found = gemv.multiply(layer, tiles, BOTH, split=split)
    x = dequantize_q8(tiles, inputs)
    emulated = gated_activation_reference(x @ rounded(gate).T, x @ rounded(up).T, "silu")
    assert found.dense is not None
    assert found.tiles is not None
    assert error(found.dense, emulated) < 2e-6
    quantised = quantize_q8_reference(found.dense)
    assert torch.equal(q8_groups(found.tiles, rows), q8_groups(quantised, rows))


def test_invalid_shapes_are_rejected(
    make_library: MakeLibrary, make_quantized: MakeQuantized
) -> None:
    gemv = GatedGemv(make_library())
    weight, other = (repack(make_quantized("Q4_K", rows, 512, tame=True)) for rows in (36, 32))
    with pytest.raises(ValueError, match=r"A gate \(36, 512\) has no partner \(32, 512\)"):
        gemv.multiply(GatedLayer(weight, other, "silu"), tiles_of(1, 512), BOTH)
    with pytest.raises(ValueError, match="36 outputs cannot be quantised"):
        gemv.multiply(GatedLayer(weight, weight, "silu"), tiles_of(1, 512), BOTH)
    with pytest.raises(ValueError, match="do not fit 512 inputs"):
        gemv.multiply(GatedLayer(other, other, "silu"), tiles_of(9, 512), BOTH)
