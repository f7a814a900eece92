from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import ActivationForms, q8_groups, quantize_q8_reference
from ingle.kernels.elementwise.gated_activation import (
    ROW_GATES,
    GateActivation,
    gated_activation_reference,
    launch_gated_activation,
    launch_sigmoid_gate,
)

MakeLibrary = Callable[..., CPUKernelLibrary]
BOTH = ActivationForms(torch.float32, tiles=True)


def halves(tokens: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(size)
    both = torch.randn(tokens, 2 * size, generator=generator) * 3
    return both[:, :size], both[:, size:]


@pytest.mark.parametrize("activation", sorted(ROW_GATES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("tokens", "size"), [(1, 32), (17, 480), (9, 1536), (3, 2080)])
def test_halves_of_one_tensor(
    make_library: MakeLibrary, activation: GateActivation,
    dtype: torch.dtype, tokens: int, size: int,
) -> None:  # fmt: skip
    gate, up = (half.to(dtype) for half in halves(tokens, size))
    operation = partial(launch_gated_activation, make_library(seed=tokens))
    found = operation(gate, up, activation, BOTH)
    exact = gated_activation_reference(gate.double(), up.double(), activation)
    assert found.dense is not None
    assert found.tiles is not None
    assert torch.allclose(found.dense, exact.float(), rtol=3e-6, atol=1e-6)
    expected = quantize_q8_reference(found.dense)
    assert torch.equal(q8_groups(found.tiles, size), q8_groups(expected, size))
    rounded = operation(gate, up, activation, ActivationForms(torch.bfloat16))
    assert rounded.dense is not None
    assert torch.equal(rounded.dense, found.dense.bfloat16())
    assert rounded.tiles is None


@pytest.mark.parametrize("activation", sorted(ROW_GATES))
def test_gates_of_any_size(make_library: MakeLibrary, activation: GateActivation) -> None:
    gate = torch.tensor([[0.0, -0.0, 1e-30, -1e-30, 88, -88, 105, -105, 3e4, -3e4, 1e30, -1e30]])
    found = launch_gated_activation(
        make_library(), gate, torch.full_like(gate, 2), activation, ActivationForms(torch.float32)
    ).dense
    assert found is not None
    exact = gated_activation_reference(gate, torch.full_like(gate, 2), activation)
    assert torch.allclose(found, exact, rtol=3e-6, atol=1e-35)


def test_gate_of_attention(make_library: MakeLibrary) -> None:
    gate, rows = (half.bfloat16() for half in halves(3, 544))
    found = launch_sigmoid_gate(make_library(), gate, rows, BOTH)
    assert found.dense is not None
    assert found.tiles is not None
    assert torch.allclose(found.dense, gate.float().sigmoid() * rows.float(), rtol=3e-6)
    expected = quantize_q8_reference(found.dense)
    assert torch.equal(q8_groups(found.tiles, 544), q8_groups(expected, 544))


def test_nan_stays_nan(make_library: MakeLibrary) -> None:
    gate, up = torch.ones(1, 64), torch.ones(1, 64)
    gate[0, 3], up[0, 40] = float("nan"), float("nan")
    found = launch_gated_activation(make_library(), gate, up, "silu", BOTH).dense
    assert found is not None
    expected = torch.zeros(1, 64, dtype=torch.bool)
    expected[0, [3, 40]] = True
    assert torch.equal(found.isnan(), expected)


def test_invalid_row_sizes_are_rejected(make_library: MakeLibrary) -> None:
    operation, rows = partial(launch_gated_activation, make_library()), torch.ones(2, 64)
    with pytest.raises(ValueError, match=r"\(2, 32\) torch.float32 is no partner"):
        operation(rows, rows[:, :32], "silu", BOTH)
    with pytest.raises(ValueError, match="Rows of 36 elements cannot be gated"):
        operation(rows[:, :36], rows[:, :36], "silu", BOTH)
    with pytest.raises(ValueError, match=r"Rows of strides \(64, 1\) are not aligned"):
        operation(rows[:, 1:33], rows[:, :32], "silu", BOTH)
