"""The sampling state of a sequence, kept from step to step."""

from __future__ import annotations

import secrets

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.kernels.philox import uniforms
from ingle.kernels.token_sampling import sample_row

from ...base.errors import UnsupportedSampling
from ...base.sampling_params import SamplingParams, active_options
from ...engine.batch import ScheduledChunk, sampling_rows
from ...engine.sequence import Sequence
from .row_sampler import NUMBERS, SamplingPath, sampling_path
from .token_counts import GeneratedTokenCounts

_SEEDS = 2**64
FUSED_OPTIONS = frozenset({"temperature", "top_k", "top_p", "min_p"})
"""The options that the sampling kernel implements; with any other active, torch samples."""
ADJUSTED_OPTIONS = frozenset(
    {
        *("repeat_penalty", "frequency_penalty", "presence_penalty", "repeat_last_n"),
        *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
    }
)
"""The options that `Adjustments` applies to the logits before either of them samples."""
MIROSTAT_OPTIONS = frozenset({"mirostat", "mirostat_tau", "mirostat_eta"})
"""The options of the draw that depends on the one before."""


class SamplingState:
    """The parameters of one sequence, its seed, and what its next draws depend on.

    Random numbers have no state: they are a function of the seed and of a token's place in the
    answer, so that preemption does not change them.

    `adjusts` is whether logits are adjusted before sampling; `fused` is the `SAMPLE_ROW` of its
    draws, if the kernel implements its options.
    """

    def __init__(self, sequence: Sequence) -> None:
        params = self.params = sequence.sampling
        self.seed = _seed(params.seed, sequence.index)
        self.route = sampling_path(params)
        numbers: list[float] = [getattr(params, name) for name in NUMBERS]
        self.numbers: NDArray[np.float64] = np.asarray(numbers, np.float64)
        active = active_options(params)
        if unknown := active - FUSED_OPTIONS - ADJUSTED_OPTIONS - MIROSTAT_OPTIONS - set(NUMBERS):
            raise UnsupportedSampling(unknown)
        self.fused = _fused(params, active, self.seed)
        self.counts = GeneratedTokenCounts(params.repeat_last_n) if params.has_penalties else None
        self.adjusts = bool(params.logit_bias) or params.has_penalties or params.has_dry
        self.mu: torch.Tensor | None = None


def _seed(seed: int | None, index: int) -> int:
    return secrets.randbelow(_SEEDS) if seed is None else (seed + index) % _SEEDS


def _fused(params: SamplingParams, active: frozenset[str], seed: int) -> bytes | None:
    """The row for the sampling kernel, or None if an active option is unknown to it."""
    if params.temperature > 0 and not active <= FUSED_OPTIONS | ADJUSTED_OPTIONS:
        return None
    return sample_row(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        seed=seed,
    ).tobytes()


class SamplingPlan:
    """Rows by path; `mirostat` has the first row of each chunk whose rows are drawn one by one."""

    def __init__(
        self, chunks: list[ScheduledChunk], states: list[SamplingState], wanted: list[bool]
    ) -> None:
        """Of the chunks that are `wanted`; rows are counted through all."""
        places: dict[SamplingPath, list[int]] = {}
        self.mirostat: list[tuple[int, ScheduledChunk, SamplingState]] = []
        self._seeds: list[int] = []
        self._numbers: list[NDArray[np.float64]] = []
        self._positions: list[int] = []
        for (rows, chunk), state, drawn in zip(sampling_rows(chunks), states, wanted, strict=True):
            self._seeds += [state.seed] * len(rows)
            self._numbers += [state.numbers] * len(rows)
            generated = chunk.sequence.num_sampled
            # Positions in a scored prompt are negative; its tokens are not drawn.
            self._positions += [max(0, generated + place) for place in range(len(rows))]
            if not drawn:
                continue
            places.setdefault(state.route, []).extend(rows)
            if state.route is SamplingPath.MIROSTAT:
                self.mirostat.append((rows.start, chunk, state))
        self.places = {route: np.asarray(rows, np.int64) for route, rows in places.items()}

    def randoms(self) -> NDArray[np.float64]:
        """Two random numbers for each row."""
        return uniforms(np.asarray(self._seeds, np.uint64), np.asarray(self._positions, np.uint64))

    def numbers(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """The parameters of these rows, in the order of `NUMBERS`."""
        return np.stack(self._numbers)[places]
