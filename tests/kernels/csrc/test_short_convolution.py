"""Gated convolutions of csrc/causal_convolution.cuh on the CPU against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import ActivationForms, q8_groups, quantize_q8_reference
from ingle.kernels.recurrent.causal_convolution import Convolution
from ingle.kernels.recurrent.pooled_states import PooledStates, advance_rows
from ingle.kernels.recurrent.recurrent_shapes import ShortConvShape
from ingle.kernels.recurrent.short_convolution import (
    ShortConvolutionKernel,
    advance_short_convolution,
    short_convolution_failures,
)

from .recurrent_steps import TOKENS, UNTOUCHED, error, mixed_steps, random_states, steps_of

MakeLibrary = Callable[..., CPUKernelLibrary]
SHAPE = ShortConvShape(channels=256, kernel=3)
BOTH = ActivationForms(torch.float32, tiles=True)


def convolution_of(*, has_bias: bool = False) -> Convolution:
    bias = torch.randn(SHAPE.channels) if has_bias else None
    return Convolution(torch.randn(SHAPE.channels, SHAPE.kernel), bias)


@pytest.mark.parametrize(
    ("dtype", "has_bias"),
    [
        (torch.bfloat16, True),
        (torch.float16, False),
        pytest.param(torch.float32, False, marks=pytest.mark.slow),
    ],
)
def test_sequences_are_convolved_as_by_torch(
    make_library: MakeLibrary, dtype: torch.dtype, has_bias: bool
) -> None:
    thirds = torch.randn(TOKENS, 3 * SHAPE.channels + 32).to(dtype)[:, 32:]
    convolution, steps = convolution_of(has_bias=has_bias), mixed_steps()
    states = random_states(SHAPE.state_shapes)
    ours, plain = (PooledStates(tuple(part.clone() for part in states), steps) for _ in range(2))
    kernel = ShortConvolutionKernel(make_library())
    found = kernel(thirds, SHAPE, convolution, ours, BOTH)
    expected = advance_rows((thirds,), plain, partial(advance_short_convolution, convolution))
    assert found.dense is not None
    assert found.tiles is not None
    # The last token belongs to no sequence: what is there is undefined.
    assert error(found.dense[:19], expected[:19]) < 1e-6
    tiles = q8_groups(quantize_q8_reference(found.dense), SHAPE.channels)
    assert torch.equal(q8_groups(found.tiles, SHAPE.channels)[:19], tiles[:19])
    assert error(ours.states[0], plain.states[0]) < 1e-6
    for row in UNTOUCHED:
        assert torch.equal(ours.states[0][row], states[0][row])


def test_tokens_of_a_convolution_leave_the_bits_of_all_at_once(make_library: MakeLibrary) -> None:
    kernel, convolution, tokens = ShortConvolutionKernel(make_library()), convolution_of(), 11
    states, thirds = random_states(SHAPE.state_shapes), torch.randn(11, 3 * SHAPE.channels)

    def run(start: int, end: int, target: int) -> torch.Tensor:
        steps = steps_of(
            [0, end - start], [target if start else -1], [0, 1], [end - start], [target]
        )
        rows = PooledStates(states, steps)
        found = kernel(thirds[start:end], SHAPE, convolution, rows, BOTH).dense
        assert found is not None
        return found

    together = run(0, tokens, 0)
    apart = torch.cat([run(0, 5, 1), *(run(place, place + 1, 1) for place in range(5, tokens))])
    assert torch.equal(apart, together)
    assert torch.equal(states[0][0], states[0][1])


def test_convolution_that_does_not_fit_is_refused(make_library: MakeLibrary) -> None:
    kernel, thirds = ShortConvolutionKernel(make_library()), torch.randn(1, 3 * SHAPE.channels)
    rows = PooledStates(random_states(SHAPE.state_shapes), steps_of([0, 1], [-1], [0, 0], [], []))
    with pytest.raises(ValueError, match="do not fit"):
        kernel(thirds[:, 3:], SHAPE, convolution_of(), rows, BOTH)
    with pytest.raises(ValueError, match="no kernels"):
        kernel(thirds, replace(SHAPE, kernel=4), convolution_of(), rows, BOTH)


def test_check_finds_a_wrong_convolution(
    make_library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, cpu = ShortConvolutionKernel(make_library()), torch.device("cpu")
    assert not list(short_convolution_failures(kernel, SHAPE, cpu))

    def compute_nothing(self: CPUKernelLibrary, *rest: object) -> None:
        del self, rest

    monkeypatch.setattr(CPUKernelLibrary, "launch", compute_nothing)
    assert (
        "The state of a short convolution is off by"
        in [*short_convolution_failures(kernel, SHAPE, cpu)][-1]
    )
