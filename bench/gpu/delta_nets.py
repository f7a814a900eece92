"""Gated DeltaNets between their projections: kernels beside torch, by tokens of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from gpu.session import Session
from torch.nn.functional import silu

from ingle.kernels.elementwise.activations import ActivationForms
from ingle.kernels.elementwise.rms_norm import Norm, rms_norm_reference
from ingle.kernels.recurrent.causal_convolution import causal_convolution_reference
from ingle.kernels.recurrent.delta_net import (
    DeltaNetInput,
    DeltaNetWeights,
    delta_gates,
    delta_rule,
)
from ingle.kernels.recurrent.delta_net_kernels import DeltaNetKernels, delta_net_failures
from ingle.kernels.recurrent.delta_shape import DeltaNetShape
from ingle.kernels.recurrent.pooled_states import PooledStates, StepRows

TOKENS = (1, 8, 512)


class DeltaNetCase(NamedTuple):
    """A model's layers."""

    name: str
    key_heads: int
    value_heads: int


CASES = (DeltaNetCase("Qwen3.5-27B", 16, 48), DeltaNetCase("Qwen3.5-35B-A3B", 16, 32))


def wrong_delta_nets(session: Session) -> Iterator[str]:
    """Where kernels and torch differ."""
    kernels = DeltaNetKernels(session.library())
    for keys, values, turns in ((2, 4, True), (2, 4, False), (1, 2, True)):
        shape = DeltaNetShape(keys, values, 128, 128, 4, turns)
        yield from delta_net_failures(kernels, shape, session.device)


def run(session: Session) -> dict[str, object]:
    """Microseconds of a layer, by model, tokens of the one sequence, and way."""
    rows: list[dict[str, Any]] = []
    for case in CASES:
        for tokens in TOKENS:
            if session.seconds_left < 10:
                return {"delta_nets": rows, "skipped": [f"{case.name}: no time was left"]}
            rows.append({**case._asdict(), "tokens": tokens, "us": _times(session, case, tokens)})
    return {"delta_nets": rows, "skipped": []}


def table(result: dict[str, Any]) -> list[str]:
    """Return the times of both ways."""
    lines: list[str] = []
    for row in result["delta_nets"]:
        times = ", ".join(f"{name} {time:.1f} us" for name, time in row["us"].items())
        lines.append(f"{row['name']:<16}{row['tokens']:>5} tokens: {times}")
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


def _times(session: Session, case: DeltaNetCase, tokens: int) -> dict[str, float]:
    device = session.device
    generator = torch.Generator(device).manual_seed(1)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, device=device, generator=generator)

    heads = case.value_heads
    shape = DeltaNetShape(case.key_heads, heads, 128, 128, 4, takes_turns=True)
    both = normal(tokens, shape.channels + shape.value_width).bfloat16()
    rates = normal(2, tokens, heads)
    x = DeltaNetInput(both[:, : shape.channels], both[:, shape.channels :], *rates)
    weights = DeltaNetWeights(
        normal(shape.channels, 4), -normal(heads).abs(), normal(heads), Norm(normal(128), 1e-6)
    )
    numbers = (0, tokens), (0,), (0, 1), (tokens,), (0,)
    steps = StepRows(*(torch.tensor(n, dtype=torch.int32, device=device) for n in numbers))
    # As many layers as a model has, so that states come from memory.
    layers = [
        PooledStates((normal(1, shape.channels, 3), normal(1, heads, 128, 128)), steps)
        for _ in range(4 if session.on_cpu else 48)
    ]
    wanted = ActivationForms(tiles=True)
    kernels = DeltaNetKernels(session.library())
    ways: dict[str, Callable[[PooledStates], object]] = {
        "kernels": lambda rows: kernels(x, shape, weights, rows, wanted),
        "torch": lambda rows: _by_torch(x, shape, weights, rows),
    }
    return {
        name: round(session.time([partial(way, rows) for rows in layers], repeats=3) * 1e6, 1)
        for name, way in ways.items()
    }


def _by_torch(
    x: DeltaNetInput, shape: DeltaNetShape, weights: DeltaNetWeights, rows: PooledStates
) -> torch.Tensor:
    """What the layer does without kernels, for one sequence."""
    before, state = rows.states
    rates, decay = delta_gates(x, shape, weights)
    mixed, after = causal_convolution_reference(x.mixed[None], before, weights.convolution)
    found, new = delta_rule(silu(mixed), rates[None], decay[None], shape, state)
    before.copy_(after)
    state.copy_(new)
    normed = rms_norm_reference(found, *weights.norm, torch.float32).view_as(x.gate)
    return normed * silu(x.gate.float())
