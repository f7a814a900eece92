"""Recurrent layers between their projections: kernels beside torch, by tokens of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from gpu.session import Session
from torch.nn.functional import silu

from ingle.kernels.elementwise.activations import ActivationForms
from ingle.kernels.elementwise.rms_norm import Norm, rms_norm_reference
from ingle.kernels.recurrent.causal_convolution import Convolution
from ingle.kernels.recurrent.delta_net import (
    DeltaNetInput,
    DeltaNetWeights,
    advance_delta_net,
    delta_gates,
)
from ingle.kernels.recurrent.delta_net_kernels import DeltaNetKernels
from ingle.kernels.recurrent.pooled_states import Advance, PooledStates, States, StepRows
from ingle.kernels.recurrent.recurrent_operations import RecurrentKernels
from ingle.kernels.recurrent.recurrent_shapes import (
    DeltaNetShape,
    ShortConvShape,
    StateSpaceShape,
)
from ingle.kernels.recurrent.short_convolution import (
    ShortConvolutionKernel,
    advance_short_convolution,
)
from ingle.kernels.recurrent.state_space_kernels import StateSpaceKernels
from ingle.kernels.recurrent.state_space_layer import (
    StateSpaceInput,
    StateSpaceWeights,
    advance_state_space,
    gated_group_norm,
)
from ingle.models.config.recurrent_config import RecurrentConfig

TOKENS = (1, 8, 512)
_WANTED = ActivationForms(tiles=True)
Ways = dict[str, Callable[[PooledStates], object]]


class RecurrentCase(NamedTuple):
    """A model's layers."""

    name: str
    shape: RecurrentConfig


CASES = (
    RecurrentCase("Qwen3.5-27B", DeltaNetShape(16, 48, 128, 128, 4, takes_turns=True)),
    RecurrentCase("Qwen3.5-35B-A3B", DeltaNetShape(16, 32, 128, 128, 4, takes_turns=True)),
    RecurrentCase("Granite-4-H-Small", StateSpaceShape(128, 64, 1, 128, 4)),
    RecurrentCase("Nemotron-Nano-9B-v2", StateSpaceShape(128, 80, 8, 128, 4)),
    RecurrentCase("LFM2-2.6B", ShortConvShape(2048, 3)),
)


def wrong_recurrent_layers(session: Session) -> Iterator[str]:
    """Where kernels and torch differ."""
    kernels = RecurrentKernels(session.library(), lambda _: _WANTED)
    for keys, values, turns in ((2, 4, True), (2, 4, False), (1, 2, True)):
        kernels.delta_net(DeltaNetShape(keys, values, 128, 128, 4, turns))
    for groups, size, state in ((1, 64, 128), (2, 80, 128), (4, 32, 256)):
        kernels.state_space(StateSpaceShape(8, size, groups, state, 4))
    kernels.short_convolution(ShortConvShape(1536, 3))
    yield from kernels.failures(session.device)


def run(session: Session) -> dict[str, object]:
    """Microseconds of a layer, by model, tokens of the one sequence, and way."""
    rows: list[dict[str, Any]] = []
    for case in CASES:
        for tokens in TOKENS:
            if session.seconds_left < 10:
                return {"layers": rows, "skipped": [f"{case.name}: no time was left"]}
            times = _times(session, case.shape, tokens)
            rows.append({"name": case.name, "tokens": tokens, "us": times})
    return {"layers": rows, "skipped": []}


def table(result: dict[str, Any]) -> list[str]:
    """Return the times of both ways."""
    lines: list[str] = []
    for row in result["layers"]:
        times = ", ".join(f"{name} {time:.1f} us" for name, time in row["us"].items())
        lines.append(f"{row['name']:<20}{row['tokens']:>5} tokens: {times}")
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


def _times(session: Session, shape: RecurrentConfig, tokens: int) -> dict[str, float]:
    device = session.device
    generator = torch.Generator(device).manual_seed(1)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, device=device, generator=generator)

    if isinstance(shape, DeltaNetShape):
        ways = _delta_net(session, shape, tokens, normal)
    elif isinstance(shape, StateSpaceShape):
        ways = _state_space(session, shape, tokens, normal)
    else:
        ways = _short_convolution(session, shape, tokens, normal)
    numbers = (0, tokens), (0,), (0, 1), (tokens,), (0,)
    steps = StepRows(*(torch.tensor(n, dtype=torch.int32, device=device) for n in numbers))
    # As many layers as a model has, so that states come from memory.
    layers = [
        PooledStates(tuple(normal(1, *each) for each in shape.state_shapes), steps)
        for _ in range(4 if session.on_cpu else 48)
    ]
    return {
        name: round(session.time([partial(way, rows) for rows in layers], repeats=3) * 1e6, 1)
        for name, way in ways.items()
    }


def _delta_net(
    session: Session, shape: DeltaNetShape, tokens: int, normal: Callable[..., torch.Tensor]
) -> Ways:
    heads = shape.value_heads
    both = normal(tokens, shape.channels + shape.value_width).bfloat16()
    rates = normal(2, tokens, heads)
    x = DeltaNetInput(both[:, : shape.channels], both[:, shape.channels :], *rates)
    convolution, norm = Convolution(normal(shape.channels, 4)), Norm(normal(128), 1e-6)
    weights = DeltaNetWeights(convolution, -normal(heads).abs(), normal(heads), norm)
    kernels = DeltaNetKernels(session.library())
    return {
        "kernels": lambda rows: kernels(x, shape, weights, rows, _WANTED),
        "torch": lambda rows: _by_torch(
            partial(advance_delta_net, shape, weights),
            (x.mixed, *delta_gates(x, shape, weights)),
            rows,
            lambda found: (
                rms_norm_reference(found, *norm, torch.float32).view_as(x.gate)
                * silu(x.gate.float())
            ),
        ),
    }


def _state_space(
    session: Session, shape: StateSpaceShape, tokens: int, normal: Callable[..., torch.Tensor]
) -> Ways:
    heads = shape.heads
    x = StateSpaceInput.of(normal(tokens, shape.width + shape.channels + heads), shape)
    weights = StateSpaceWeights(
        Convolution(normal(shape.channels, 4), normal(shape.channels)),
        *(-normal(heads).abs(), normal(heads), normal(heads)),
        Norm(normal(shape.width), 1e-5),
    )
    kernels = StateSpaceKernels(session.library())
    return {
        "kernels": lambda rows: kernels(x, shape, weights, rows, _WANTED),
        "torch": lambda rows: _by_torch(
            partial(advance_state_space, shape, weights),
            (x.mixed, x.steps),
            rows,
            lambda found: gated_group_norm(found[0].flatten(1), x.gate, shape, weights.norm),
        ),
    }


def _short_convolution(
    session: Session, shape: ShortConvShape, tokens: int, normal: Callable[..., torch.Tensor]
) -> Ways:
    thirds = normal(tokens, 3 * shape.channels).bfloat16()
    convolution = Convolution(normal(shape.channels, 3))
    kernel = ShortConvolutionKernel(session.library())
    advance = partial(advance_short_convolution, convolution)
    return {
        "kernels": lambda rows: kernel(thirds, shape, convolution, rows, _WANTED),
        "torch": lambda rows: _by_torch(advance, (thirds,), rows, lambda found: found),
    }


def _by_torch(
    advance: Advance,
    inputs: States,
    rows: PooledStates,
    finish: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """What the layer does without kernels, for one sequence."""
    found, after = advance(tuple(each[None] for each in inputs), rows.states)
    for before, new in zip(rows.states, after, strict=True):
        before.copy_(new)
    return finish(found)
