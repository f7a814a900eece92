"""csrc/state_space.cuh on the CPU against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import ActivationForms, q8_groups, quantize_q8_reference
from ingle.kernels.elementwise.rms_norm import Norm
from ingle.kernels.recurrent.causal_convolution import Convolution
from ingle.kernels.recurrent.pooled_states import PooledStates
from ingle.kernels.recurrent.recurrent_shapes import StateSpaceShape
from ingle.kernels.recurrent.state_space_kernels import (
    StateSpaceKernels,
    state_space_failures,
    state_space_layer_reference,
)
from ingle.kernels.recurrent.state_space_layer import StateSpaceInput, StateSpaceWeights

from .recurrent_steps import TOKENS, UNTOUCHED, error, mixed_steps, random_states, steps_of

MakeLibrary = Callable[..., CPUKernelLibrary]
CPU = torch.device("cpu")
SHAPE = StateSpaceShape(heads=8, head_size=80, groups=2, state_size=128, kernel=4)
BOTH = ActivationForms(torch.float32, tiles=True)


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
    x, weights = inputs_of(shape), weights_of(shape, has_bias=has_bias)
    states, steps = random_states(shape.state_shapes), mixed_steps()
    ours, plain = (PooledStates(tuple(part.clone() for part in states), steps) for _ in range(2))
    found = StateSpaceKernels(make_library(seed=shape.groups))(x, shape, weights, ours, BOTH)
    expected = state_space_layer_reference(x, shape, weights, plain)
    assert found.dense is not None
    assert found.tiles is not None
    # The last token belongs to no sequence: what is there is undefined.
    assert error(found.dense[:19], expected[:19]) < 1e-5
    tiles = q8_groups(quantize_q8_reference(found.dense), shape.width)
    assert torch.equal(q8_groups(found.tiles, shape.width)[:19], tiles[:19])
    for one, other, before in zip(ours.states, plain.states, states, strict=True):
        assert error(one, other) < 1e-5
        for row in UNTOUCHED:
            assert torch.equal(one[row], before[row])


@pytest.mark.slow
def test_tokens_of_a_state_space_leave_the_bits_of_all_at_once(make_library: MakeLibrary) -> None:
    """So prefixes, drafts and what is restored are exact, however steps divide a text."""
    kernels, weights, tokens = StateSpaceKernels(make_library()), weights_of(SHAPE), 19
    states, inputs = random_states(SHAPE.state_shapes), inputs_of(SHAPE, tokens)

    def run(start: int, end: int, target: int) -> torch.Tensor:
        x = StateSpaceInput(*(part[start:end] for part in inputs))
        steps = steps_of(
            [0, end - start], [target if start else -1], [0, 1], [end - start], [target]
        )
        found = kernels(x, SHAPE, weights, PooledStates(states, steps), BOTH).dense
        assert found is not None
        return found

    together = run(0, tokens, 0)
    apart = torch.cat([run(0, 5, 1), *(run(place, place + 1, 1) for place in range(5, tokens))])
    assert torch.equal(apart, together)
    for part in states:
        assert torch.equal(part[0], part[1])


def test_state_space_that_does_not_fit_is_refused(make_library: MakeLibrary) -> None:
    kernels, weights, x = StateSpaceKernels(make_library()), weights_of(SHAPE), inputs_of(SHAPE, 1)
    rows = PooledStates(random_states(SHAPE.state_shapes), steps_of([0, 1], [-1], [0, 0], [], []))
    with pytest.raises(ValueError, match="do not fit"):
        kernels(x._replace(mixed=x.mixed[:, 1:]), SHAPE, weights, rows, BOTH)
    with pytest.raises(ValueError, match="no kernels"):
        kernels(x, replace(SHAPE, state_size=64), weights, rows, BOTH)


@pytest.mark.slow
def test_check_finds_a_wrong_state_space(
    make_library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = StateSpaceKernels(make_library())
    assert not list(state_space_failures(kernels, SHAPE, CPU))
    launch = CPUKernelLibrary.launch

    def keep_no_state(self: CPUKernelLibrary, source: str, kernel: str, *rest: object) -> None:
        if kernel != "state_space_128":
            launch(self, source, kernel, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(CPUKernelLibrary, "launch", keep_no_state)
    failures = list(state_space_failures(kernels, SHAPE, CPU))
    assert failures[-1].startswith("The state of a state space is off by")
