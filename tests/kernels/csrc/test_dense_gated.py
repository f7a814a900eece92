"""Fused gate and up projections with 16-bit weights on the CPU against float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary
from torch.nn.functional import gelu, silu

from ingle.kernels.elementwise.gated_activation import GateActivation
from ingle.kernels.matmul.dense_gemv import can_gate_dense, launch_dense_gated
from ingle.kernels.matmul.linear import GatedLayer

MakeLibrary = Callable[..., CPUKernelLibrary]


def normal(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return (torch.randn(*shape, generator=generator) / shape[1] ** 0.5).to(dtype)


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("split", [1, 4])
@pytest.mark.parametrize(
    ("rows", "inputs", "columns"), [(8, 64, 1), (45, 904, 3), (70, 1040, 8), (33, 136, 13)]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_both_matrices_in_one_launch(
    make_library: MakeLibrary, dtype: torch.dtype, rows: int, inputs: int, columns: int,
    split: int, activation: GateActivation,
) -> None:  # fmt: skip
    gate, up = normal(rows, inputs, dtype=dtype), normal(rows, inputs, dtype=dtype).roll(1, 0)
    x, biases = normal(columns, inputs, dtype=dtype) * 20, torch.randn(2, rows)
    layer = GatedLayer(gate, up.contiguous(), activation, biases[0], biases[1])
    out = torch.full((columns, rows), float("nan"))
    launch_dense_gated(make_library(seed=rows), layer, x, out, split=split)
    first = x.double() @ gate.double().T + biases[0]
    gated = silu(first) if activation == "silu" else gelu(first, approximate="tanh")
    expected = gated * (x.double() @ up.double().T + biases[1])
    difference = ((out - expected) ** 2).sum() / (expected**2).sum()
    assert float(difference) < 5e-6**2


def test_output_has_the_requested_dtype(make_library: MakeLibrary) -> None:
    gate, up, x = normal(40, 96), normal(40, 96).roll(1, 1), normal(2, 96)
    layer, library = GatedLayer(gate, up.contiguous(), "silu"), make_library()
    full = launch_dense_gated(library, layer, x, torch.empty(2, 40))
    assert torch.equal(
        launch_dense_gated(library, layer, x, torch.empty(2, 40).half()), full.half()
    )


def test_unsupported_shapes_have_no_kernel(make_library: MakeLibrary) -> None:
    gate, x = normal(8, 64), normal(2, 64)
    assert can_gate_dense(gate, gate, x)
    assert not can_gate_dense(gate, normal(16, 64), x)
    assert not can_gate_dense(gate, gate.bfloat16(), x)
    library = make_library()
    with pytest.raises(ValueError, match="have no kernel"):
        launch_dense_gated(library, GatedLayer(gate, normal(16, 64), "silu"), x, torch.empty(2, 8))
    with pytest.raises(ValueError, match=r"2 by 8 results do not fit \(2, 9\)"):
        launch_dense_gated(library, GatedLayer(gate, gate, "silu"), x, torch.empty(2, 9))
