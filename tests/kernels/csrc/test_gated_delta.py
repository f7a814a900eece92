"""csrc/gated_delta.cuh on the CPU against plain torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ingle.kernels.elementwise.rms_norm import Norm
from ingle.kernels.recurrent.causal_convolution import Convolution
from ingle.kernels.recurrent.delta_net import DeltaNetInput, DeltaNetWeights
from ingle.kernels.recurrent.delta_net_kernels import (
    DeltaNetKernels,
    delta_net_failures,
    delta_net_reference,
)
from ingle.kernels.recurrent.recurrent_shapes import DeltaNetShape

from .recurrent_steps import (
    TOKENS,
    MakeLibrary,
    check_mixed_steps,
    check_one_by_one,
    check_refused,
    check_without,
)

CPU = torch.device("cpu")
SHAPE = DeltaNetShape(2, 4, 128, 128, 4, takes_turns=True)


def weights_of(shape: DeltaNetShape) -> DeltaNetWeights:
    heads = shape.value_heads
    return DeltaNetWeights(
        Convolution(torch.randn(shape.channels, shape.kernel)),
        -torch.rand(heads),
        torch.randn(heads),
        Norm(torch.randn(shape.value_size), 1e-6),
    )


@pytest.mark.parametrize(
    ("dtype", "turns", "joint", "key_heads"),
    [
        (torch.bfloat16, True, False, 2),
        pytest.param(torch.float16, False, True, 2, marks=pytest.mark.slow),
        pytest.param(torch.float32, False, False, 1, marks=pytest.mark.slow),
    ],
)
def test_sequences_are_advanced_as_by_torch(
    make_library: MakeLibrary, dtype: torch.dtype, turns: bool, joint: bool, key_heads: int
) -> None:
    shape = replace(SHAPE, key_heads=key_heads, takes_turns=turns)
    tokens, heads = TOKENS, shape.value_heads
    mixed = torch.randn(tokens, shape.channels + 32).to(dtype)[:, : shape.channels]
    gate = torch.randn(tokens, shape.value_width + 8).to(dtype)[:, 8:]
    rates = torch.randn(tokens, 2 * heads) * 3
    rates[0] = 40  # beyond it softplus is the identity
    x = DeltaNetInput(mixed, gate, rates) if joint else DeltaNetInput(
        mixed, gate, rates[:, :heads], rates[:, heads:]
    )  # fmt: skip
    kernels = DeltaNetKernels(make_library(seed=key_heads))
    check_mixed_steps(kernels, delta_net_reference, x, shape, weights_of(shape))


@pytest.mark.slow
def test_tokens_one_by_one_leave_the_bits_of_all_at_once(make_library: MakeLibrary) -> None:
    mixed, gate = torch.randn(19, SHAPE.channels), torch.randn(19, SHAPE.value_width)
    x = DeltaNetInput(mixed, gate, *torch.randn(2, 19, SHAPE.value_heads))
    check_one_by_one(DeltaNetKernels(make_library()), x, SHAPE, weights_of(SHAPE))


def test_what_does_not_fit_is_refused(make_library: MakeLibrary) -> None:
    mixed, gate = torch.randn(1, SHAPE.channels), torch.randn(1, SHAPE.value_width)
    x, shapes = DeltaNetInput(mixed, gate, torch.randn(1, 4)), (SHAPE, replace(SHAPE, key_size=64))
    check_refused(DeltaNetKernels(make_library()), x, x, shapes, weights_of(SHAPE))


@pytest.mark.slow
def test_check_finds_a_wrong_state(
    make_library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = DeltaNetKernels(make_library())
    last = check_without(
        "gated_delta", lambda: list(delta_net_failures(kernels, SHAPE, CPU)), monkeypatch
    )
    assert last.startswith("The state of a DeltaNet is off by")
