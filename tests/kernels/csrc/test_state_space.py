"""csrc/state_space.cuh on the CPU against plain torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ingle.kernels.elementwise.rms_norm import Norm
from ingle.kernels.recurrent.causal_convolution import Convolution
from ingle.kernels.recurrent.recurrent_shapes import StateSpaceShape
from ingle.kernels.recurrent.state_space_kernels import (
    StateSpaceKernels,
    state_space_failures,
    state_space_layer_reference,
)
from ingle.kernels.recurrent.state_space_layer import StateSpaceInput, StateSpaceWeights

from .recurrent_steps import (
    TOKENS,
    MakeLibrary,
    check_mixed_steps,
    check_one_by_one,
    check_refused,
    check_without,
)

CPU = torch.device("cpu")
SHAPE = StateSpaceShape(heads=8, head_size=80, groups=2, state_size=128, kernel=4)


def weights_of(shape: StateSpaceShape, *, has_bias: bool = True) -> StateSpaceWeights:
    channels, heads = shape.channels, shape.heads
    bias = torch.randn(channels) if has_bias else None
    return StateSpaceWeights(
        Convolution(torch.randn(channels, shape.kernel), bias),
        -torch.rand(heads),
        torch.randn(heads),
        torch.randn(heads),
        Norm(torch.randn(shape.width), 1e-5),
    )


def inputs_of(shape: StateSpaceShape, tokens: int = TOKENS) -> StateSpaceInput:
    together = torch.randn(tokens, shape.width + shape.channels + shape.heads)
    together[0, -1] = 40  # beyond it softplus is the identity
    return StateSpaceInput.of(together, shape)


@pytest.mark.parametrize(
    ("shape", "has_bias"),
    [
        (SHAPE, True),
        pytest.param(
            StateSpaceShape(heads=4, head_size=32, groups=1, state_size=256, kernel=4),
            False,
            marks=pytest.mark.slow,
        ),
        pytest.param(  # a group of more than 4096
            StateSpaceShape(heads=68, head_size=64, groups=1, state_size=128, kernel=4),
            True,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_state_spaces_are_advanced_as_by_torch(
    make_library: MakeLibrary, shape: StateSpaceShape, has_bias: bool
) -> None:
    kernels = StateSpaceKernels(make_library(seed=shape.groups))
    weights = weights_of(shape, has_bias=has_bias)
    check_mixed_steps(kernels, state_space_layer_reference, inputs_of(shape), shape, weights)


@pytest.mark.slow
def test_tokens_of_a_state_space_leave_the_bits_of_all_at_once(make_library: MakeLibrary) -> None:
    kernels = StateSpaceKernels(make_library())
    check_one_by_one(kernels, inputs_of(SHAPE, 19), SHAPE, weights_of(SHAPE))


def test_state_space_that_does_not_fit_is_refused(make_library: MakeLibrary) -> None:
    kernels, x = StateSpaceKernels(make_library()), inputs_of(SHAPE, 1)
    shapes = SHAPE, replace(SHAPE, state_size=64)
    check_refused(kernels, x._replace(mixed=x.mixed[:, 1:]), x, shapes, weights_of(SHAPE))


@pytest.mark.slow
def test_check_finds_a_wrong_state_space(
    make_library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = StateSpaceKernels(make_library())
    last = check_without(
        "state_space_128", lambda: list(state_space_failures(kernels, SHAPE, CPU)), monkeypatch
    )
    assert last.startswith("The state of a state space is off by")
