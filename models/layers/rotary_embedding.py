"""Rotary embedding (RoPE): cosine and sine tables of one kind of layer."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ingle.kernels.operations import Operations

from ..config.model_config import RopeConfig


class RotaryTables(NamedTuple):
    """Cosine and sine (tokens, size / 2), and the scale of queries (tokens, 1) or None; fp32."""

    cosine: torch.Tensor
    sine: torch.Tensor
    query_scale: torch.Tensor | None = None


class RotaryEmbedding:
    """The frequencies of one `RopeConfig`, for a model with a context of `context` positions."""

    def __init__(
        self, operations: Operations, config: RopeConfig, context: int, device: torch.device
    ) -> None:
        self._operations = operations
        frequencies = rotary_frequencies(config, context)
        self._frequencies = torch.tensor(frequencies, dtype=torch.float32, device=device)
        axes = [axis for axis, pairs in enumerate(config.sections) for _ in range(pairs)]
        self._axes = torch.tensor(axes or [0] * len(frequencies), device=device)
        self._scale = config.attention_factor
        # Within the original context the scale of queries is one.
        self._temperature = config.temperature if context > config.original_context else 0.0
        self._original_context = config.original_context

    def __call__(self, positions: torch.Tensor) -> RotaryTables:
        """The tables of `positions` (tokens,) int64, or (axes, tokens) in pictures."""
        if positions.ndim > 1:
            angles = positions[self._axes].T.double() * self._frequencies.double()
            cosine, sine = angles.cos() * self._scale, angles.sin() * self._scale
            return RotaryTables(cosine.float(), sine.float())
        tables = self._operations.rotary_tables(positions, self._frequencies, self._scale)
        if not self._temperature:
            return RotaryTables(*tables)
        turns = positions.div(self._original_context, rounding_mode="floor")
        return RotaryTables(*tables, 1 + self._temperature * turns.float().log1p()[:, None])

    def first(self, count: int) -> RotaryTables:
        """The tables of the first `count` positions."""
        return self(torch.arange(count, device=self._frequencies.device))


def rotary_frequencies(config: RopeConfig, context: int) -> list[float]:
    """The frequency of each pair of elements, in radians a position."""
    stretched = bool(config.long_factors) and context > config.original_context
    factors = config.long_factors if stretched else config.factors
    divisors = factors or (1.0,) * (config.size // 2)
    return [
        config.theta ** (-2 * index / config.size) / divisor
        for index, divisor in enumerate(divisors)
    ]
