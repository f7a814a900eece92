"""What is kept of a sequence's sampling from step to step."""

from __future__ import annotations

import secrets
from enum import Enum

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.kernels.token_sampling import sample_row

from ...base.sampling_params import SamplingParams
from ...engine.sequence import Sequence
from .token_counts import TokenCounts

_SEEDS = 2**64
_WIDEST_TOP = 1024
"""With a larger `top_k` it is cheaper to sort everything."""

NUMBERS: tuple[str, ...] = (
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "top_n_sigma",
    "top_k",
    "typical_p",
    "top_p",
    "min_p",
    "xtc_probability",
    "xtc_threshold",
)
"""The parameters of `SamplingParams` that `SamplingState.numbers` has, in this order."""


class SamplingPath(Enum):
    """How a sequence's tokens are found: each needs more work than the one before."""

    GREEDY = "the largest logit"
    UNSORTED = "a draw among all, in any order"
    TOP_K = "a draw among the likeliest few"
    SORTED = "a draw among all, sorted"
    MIROSTAT = "a draw that depends on the one before"


class SamplingState:
    """The parameters of one sequence, its seed, and what its next draws depend on.

    Random numbers have no state: they are a function of the seed and of a token's place in the
    answer, so that a preempted sequence goes on as if nothing had been.

    `adjusts` tells whether logits are changed before anything is drawn; `fused` is the
    `SAMPLE_ROW` of its draws, where the kernel knows its parameters.
    """

    def __init__(self, sequence: Sequence) -> None:
        params = self.params = sequence.sampling
        self.seed = _seed(params.seed, sequence.index)
        self.route = _route(params)
        numbers: list[float] = [getattr(params, name) for name in NUMBERS]
        self.numbers: NDArray[np.float64] = np.asarray(numbers, np.float64)
        self.fused = _fused(params, self.seed)
        self.counts = TokenCounts(params.repeat_last_n) if params.has_penalties else None
        self.adjusts = bool(params.logit_bias) or params.has_penalties or params.has_dry
        self.mu: torch.Tensor | None = None


def _seed(seed: int | None, index: int) -> int:
    return secrets.randbelow(_SEEDS) if seed is None else (seed + index) % _SEEDS


def _route(params: SamplingParams) -> SamplingPath:
    if params.temperature <= 0:
        return SamplingPath.GREEDY
    if params.mirostat:
        return SamplingPath.MIROSTAT
    if 0 < params.top_k <= _WIDEST_TOP:
        return SamplingPath.TOP_K
    cuts = params.typical_p < 1 or params.top_p < 1 or params.xtc_probability > 0
    return SamplingPath.SORTED if params.top_k > 0 or cuts else SamplingPath.UNSORTED


def _fused(params: SamplingParams, seed: int) -> bytes | None:
    known = (
        params.typical_p >= 1
        and params.top_n_sigma <= 0
        and params.xtc_probability <= 0
        and params.dynatemp_range <= 0
        and not params.mirostat
    )
    if params.temperature > 0 and not known:
        return None
    return sample_row(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        seed=seed,
    ).tobytes()
