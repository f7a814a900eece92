"""csrc/gated_delta.cuh on the CPU against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import ActivationForms, q8_groups, quantize_q8_reference
from ingle.kernels.elementwise.rms_norm import Norm
from ingle.kernels.recurrent.causal_convolution import Convolution
from ingle.kernels.recurrent.delta_net import DeltaNetInput, DeltaNetWeights
from ingle.kernels.recurrent.delta_net_kernels import (
    DeltaNetKernels,
    delta_net_failures,
    delta_net_reference,
)
from ingle.kernels.recurrent.pooled_states import PooledStates
from ingle.kernels.recurrent.recurrent_shapes import DeltaNetShape

from .recurrent_steps import TOKENS, UNTOUCHED, error, mixed_steps, random_states, steps_of

MakeLibrary = Callable[..., CPUKernelLibrary]
CPU = torch.device("cpu")
SHAPE = DeltaNetShape(2, 4, 128, 128, 4, takes_turns=True)
BOTH = ActivationForms(torch.float32, tiles=True)


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
    weights, states = weights_of(shape), random_states(shape.state_shapes)
    steps = mixed_steps()
    ours, plain = (PooledStates(tuple(part.clone() for part in states), steps) for _ in range(2))
    found = DeltaNetKernels(make_library(seed=key_heads))(x, shape, weights, ours, BOTH)
    expected = delta_net_reference(x, shape, weights, plain)
    assert found.dense is not None
    assert found.tiles is not None
    # The last token belongs to no sequence: what is there is undefined.
    assert error(found.dense[:19], expected[:19]) < 1e-5
    tiles = q8_groups(quantize_q8_reference(found.dense), shape.value_width)
    assert torch.equal(q8_groups(found.tiles, shape.value_width)[:19], tiles[:19])
    for one, other, before in zip(ours.states, plain.states, states, strict=True):
        assert error(one, other) < 1e-5
        for row in UNTOUCHED:
            assert torch.equal(one[row], before[row])


@pytest.mark.slow
def test_tokens_one_by_one_leave_the_bits_of_all_at_once(make_library: MakeLibrary) -> None:
    """So prefixes, drafts and what is restored are exact, however steps divide a text."""
    kernels, weights, tokens = DeltaNetKernels(make_library()), weights_of(SHAPE), 19
    states = random_states(SHAPE.state_shapes)
    mixed, gate = torch.randn(tokens, SHAPE.channels), torch.randn(tokens, SHAPE.value_width)
    rates, lasting = torch.randn(2, tokens, SHAPE.value_heads)

    def run(start: int, end: int, target: int) -> torch.Tensor:
        x = DeltaNetInput(*(part[start:end] for part in (mixed, gate, rates, lasting)))
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


def test_what_does_not_fit_is_refused(make_library: MakeLibrary) -> None:
    kernels, weights = DeltaNetKernels(make_library()), weights_of(SHAPE)
    x = DeltaNetInput(
        torch.randn(1, SHAPE.channels), torch.randn(1, SHAPE.value_width), torch.randn(1, 4)
    )
    rows = PooledStates(random_states(SHAPE.state_shapes), steps_of([0, 1], [-1], [0, 0], [], []))
    with pytest.raises(ValueError, match="do not fit"):
        kernels(x, SHAPE, weights, rows, BOTH)
    with pytest.raises(ValueError, match="no kernels"):
        kernels(x, replace(SHAPE, key_size=64), weights, rows, BOTH)


@pytest.mark.slow
def test_check_finds_a_wrong_state(
    make_library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = DeltaNetKernels(make_library())
    assert not list(delta_net_failures(kernels, SHAPE, CPU))
    launch = CPUKernelLibrary.launch

    def keep_no_state(self: CPUKernelLibrary, source: str, kernel: str, *rest: object) -> None:
        if kernel != "gated_delta":
            launch(self, source, kernel, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(CPUKernelLibrary, "launch", keep_no_state)
    failures = list(delta_net_failures(kernels, SHAPE, CPU))
    assert failures[-1].startswith("The state of a DeltaNet is off by")
