"""Rotary embedding (RoPE): cosine and sine tables of one kind of layer."""

from __future__ import annotations

import torch

from ingle.kernels.operations import Operations

from ..config.model_config import RopeConfig

RotaryTables = tuple[torch.Tensor, torch.Tensor]


class RotaryEmbedding:
    """The frequencies of one `RopeConfig`, for a model with a context of `context` positions."""

    def __init__(
        self, operations: Operations, config: RopeConfig, context: int, device: torch.device
    ) -> None:
        self._operations = operations
        frequencies = rotary_frequencies(config, context)
        self._frequencies = torch.tensor(frequencies, dtype=torch.float32, device=device)
        self._scale = config.attention_factor

    def __call__(self, positions: torch.Tensor) -> RotaryTables:
        """Cosine and sine (tokens, size / 2) fp32 of `positions` (tokens,)."""
        return self._operations.rotary_tables(positions, self._frequencies, self._scale)

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
