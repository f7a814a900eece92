"""RoPE scaling for contexts longer than the trained one: a divisor for each frequency.

Sources: the YaRN paper (arXiv 2309.00071), Llama 3.1's reference code, and the same formulas in
transformers' `modeling_rope_utils`.
"""

from __future__ import annotations

import math

_STANDSTILL = 1e30
"""The divisor that GGUF files have for a frequency of zero."""


def linear_factors(size: int, factor: float) -> tuple[float, ...]:
    """Position interpolation: every frequency is divided by the same factor."""
    return (factor,) * (size // 2)


def proportional_factors(size: int, rotated: int) -> tuple[float, ...]:
    """Gemma 4: of the frequencies of `size` elements only those of the first `rotated` turn."""
    turning = rotated // 2
    return (1.0,) * turning + (_STANDSTILL,) * (size // 2 - turning)


def llama3_factors(
    theta: float,
    size: int,
    *,
    factor: float,
    low_frequency: float,
    high_frequency: float,
    original_context: int,
) -> tuple[float, ...]:
    """Llama 3.1: waves longer than the context / `low_frequency` are stretched, short ones kept."""
    factors: list[float] = []
    for index in range(size // 2):
        turns = original_context / (2 * math.pi * theta ** (2 * index / size))
        if turns < low_frequency:
            factors.append(factor)
        elif turns > high_frequency:
            factors.append(1.0)
        else:
            kept = (turns - low_frequency) / (high_frequency - low_frequency)
            factors.append(1 / ((1 - kept) / factor + kept))
    return tuple(factors)


def yarn_factors(
    theta: float,
    size: int,
    *,
    factor: float,
    original_context: int,
    beta_fast: float,
    beta_slow: float,
    whole_bounds: bool = True,
) -> tuple[float, ...]:
    """YaRN: frequencies of more than `beta_fast` turns are kept, below `beta_slow` interpolated.

    Between the two the share changes in a straight line over the index of the frequency, whose
    ends are rounded outwards where `whole_bounds`.
    """

    def index_of(turns: float) -> float:
        return size * math.log(original_context / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = index_of(beta_fast), index_of(beta_slow)
    if whole_bounds:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    span = max(high - low, 0.001)
    kept = [1 - min(max((index - low) / span, 0), 1) for index in range(size // 2)]
    return tuple(1 / ((1 - share) / factor + share) for share in kept)


def yarn_attention_factor(factor: float, weight: float = 1.0) -> float:
    """YaRN's factor of cosine and sine, which keeps the attention's entropy."""
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


def longrope_attention_factor(factor: float, original_context: int) -> float:
    """LongRoPE's factor of cosine and sine for `factor` times the original context."""
    return math.sqrt(1 + math.log(factor) / math.log(original_context)) if factor > 1 else 1.0
