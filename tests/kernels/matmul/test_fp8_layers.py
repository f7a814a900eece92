"""Layers with weights in FP8: each input is rounded once, and results are those of torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from gpu.weights import random_fp8
from kernel_harness.host_library import CPUKernelLibrary
from kernel_harness.interpreted_library import InterpretedTritonLibrary

from ingle.kernels.formats.weight import FP8Tensor
from ingle.kernels.kernel_operations import KernelOperations
from ingle.kernels.launch.cuda_driver import Argument, Grid
from ingle.kernels.matmul.linear import LinearLayer, linear_reference

CPU = torch.device("cpu")


class CountingLibrary(CPUKernelLibrary):
    """Counts the launches of each kernel."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.counts: Counter[str] = Counter()

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
        self.counts[kernel] += 1
        super().launch(source, kernel, grid, block, arguments, shared_bytes=shared_bytes)


@pytest.fixture
def library(pytestconfig: pytest.Config) -> CountingLibrary:
    assert pytestconfig.cache is not None
    return CountingLibrary(pytestconfig.cache.mkdir("kernels"))


def operations_on(library: CPUKernelLibrary, *, fp8: bool = True) -> KernelOperations:
    triton = InterpretedTritonLibrary([], num_sms=8)
    return KernelOperations(library, triton, dtype=torch.bfloat16, device=CPU, fp8=fp8)


def layer_of(operations: KernelOperations, weight: FP8Tensor) -> LinearLayer:
    return LinearLayer(operations.prepare(weight), torch.linspace(-1, 1, weight.shape[0]))


def test_layers_round_their_input_once(library: CountingLibrary) -> None:
    operations = operations_on(library)
    scale = torch.tensor(0.01)
    weights = [random_fp8(64, 128, CPU, seed) for seed in range(4)]
    fixed = [FP8Tensor(each.codes, each.scales[0, 0], scale.clone()) for each in weights[:2]]
    assert operations.multiplies_fp8(weights[0])
    layers = [layer_of(operations, each) for each in weights]
    static = [layer_of(operations, each) for each in fixed]
    rows = torch.randn(5, 128).bfloat16()
    library.counts.clear()
    x = operations.activations(rows)
    found = [*operations.linear(x, *layers[:3], dtype=torch.float32)]
    found += operations.linear(x, *static, dtype=torch.float32)
    gated = operations.gated_linear(x, layers[0], layers[1], "silu").dense
    residual = torch.zeros(5, 64)
    operations.linear_add(residual, x, layers[3], 0.5)
    assert library.counts == {
        "quantize_fp8_rows": 1,
        "quantize_fp8_fixed": 1,
        "gated_activation": 1,
    }
    expected = [
        linear_reference(rows.float(), weight, layer.bias)
        for weight, layer in zip([*weights, *fixed], [*layers, *static], strict=True)
    ]
    assert gated is not None
    active = torch.nn.functional.silu(expected[0]) * expected[1]
    pairs = [*zip(found, expected[:3] + expected[4:], strict=True), (gated.float(), active)]
    for result, right in [*pairs, (residual, 0.5 * expected[3])]:
        assert float((result - right).square().sum() / right.square().sum()) < 4e-5


def test_fp8_can_be_turned_off(library: CountingLibrary) -> None:
    assert not operations_on(library, fp8=False).multiplies_fp8(random_fp8(64, 128, CPU))
