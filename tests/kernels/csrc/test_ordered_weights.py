"""Weights whose columns are in another order than their inputs: GPTQ's act-order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import ActivationForms, Activations
from ingle.kernels.elementwise.gated_activation import gated_activation_reference
from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.matmul.linear import LinearLayer
from ingle.kernels.matmul.matmul_dispatch import MatmulDispatch
from ingle.kernels.matmul.matmul_tuning import MatmulTuning
from ingle.kernels.matmul.stacked_layers import join_layers, stack_layers

MakeLibrary = Callable[..., CPUKernelLibrary]
MakeQuantized = Callable[..., QuantizedTensor]
DENSE = ActivationForms(torch.float32)


def shuffled(weight: QuantizedTensor, seed: int) -> QuantizedTensor:
    order = torch.randperm(weight.columns, generator=torch.Generator().manual_seed(seed))
    return replace(weight, order=order)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((found.double() - expected) ** 2).sum() / (expected**2).sum())


def test_values_return_to_their_columns(make_quantized: MakeQuantized) -> None:
    weight = make_quantized("G4_64", 9, 256, tame=True)
    moved = shuffled(weight, 1)
    assert moved.order is not None
    assert torch.equal(dequantize(moved)[:, moved.order], dequantize(weight))
    assert torch.equal(dequantize(moved.rows(slice(2, 5))), dequantize(moved)[2:5])


@pytest.mark.parametrize("tokens", [1, 12, 300])
def test_products_of_few_and_many_rows(
    make_library: MakeLibrary, make_quantized: MakeQuantized, tokens: int
) -> None:
    """By GEMV, by tensor cores, and dequantised."""
    dispatch = MatmulDispatch(
        make_library(gemm="VARIANT(8, 1, 1, 4) VARIANT(16, 2, 1, 4)"),
        torch.float16,
        torch.device("cpu"),
        MatmulTuning(64),
    )
    gate, up = (
        shuffled(make_quantized("G4_128", 64, 256, seed, tame=True), seed) for seed in (1, 2)
    )
    layers = [LinearLayer(repack(each)) for each in (gate, up)]
    assert len(join_layers(stack_layers(layers))) == 2
    rows = torch.randn(tokens, 256).half()
    x = Activations(256, rows)
    exact = [rows.double() @ dequantize(each).double().T for each in (gate, up)]
    out = torch.empty(tokens, 128, dtype=torch.float16)
    dispatch.multiply_all(x, layers, out)
    assert error(out, torch.cat(exact, 1)) < 3e-4
    residual = torch.ones(tokens, 64)
    dispatch.multiply_add(residual, x, layers[0], 0.5)
    assert error(residual, 1 + 0.5 * exact[0]) < 3e-4
    gated = dispatch.gated(x, layers[0], layers[1], "silu", DENSE).dense
    assert gated is not None
    assert error(gated, gated_activation_reference(exact[0], exact[1], "silu")) < 1e-3
