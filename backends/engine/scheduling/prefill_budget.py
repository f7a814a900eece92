"""The prefill budget: how many prompt tokens one step computes, and how prompts share them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ...base.requests import Priority
from ..sequence import Sequence

_PAUSE_SECONDS = 0.2
_STEP_SECONDS = 2.0
"""Chunks of half as long are 5 to 15 % slower for each token where they are below 128 tokens, as
those of most models on a CPU."""
_SLACK = 1.25
_SMALLEST = 32
_BEFORE_MEASURING = 64
_FIRST_CHUNK = 128
_MEMORY = 0.7
_TOGETHER_SECONDS = 1.0
TILE = 16
"""Matrix products compute so many rows at once; llama.cpp multiplies the rest row by row."""


class ChunkBudget:
    """Bounds chunks of prefill by the measured time of earlier steps.

    Where decoding sequences need short steps (`needs_short_steps`), or another model waits for the
    same CPUs, a chunk fits into a short pause. Else it may take about two seconds; `Batch.stops`
    ends it for a cancel or a new request. That chunk is a power of two that changes only if the
    cost has clearly changed: prefill in other chunks yields slightly different logits.
    """

    def __init__(self, most: int) -> None:
        """`most` is the largest number of tokens of a step."""
        self._most = most
        self._seconds_per_token: float | None = None
        self._chunk = _FIRST_CHUNK
        self.contended = False
        """Whether another model waits while this one computes."""

    def limit(self, *, short: bool) -> int:
        """Prompt tokens for the next step: of a `short` pause, else of about two seconds."""
        if not short and not self.contended:
            return min(self._most, self._chunk)
        if self._seconds_per_token is None:
            return min(self._most, _BEFORE_MEASURING)
        return min(self._most, max(_SMALLEST, int(_PAUSE_SECONDS / self._seconds_per_token)))

    def is_long(self, tokens: int) -> bool:
        """Whether a step of so many tokens takes longer than a short pause."""
        return self.expect(tokens) > _PAUSE_SECONDS

    def expect(self, tokens: int) -> float:
        """Seconds that a step of so many tokens takes; 0 where none was measured."""
        return tokens * (self._seconds_per_token or 0.0)

    def observe(self, tokens: int, seconds: float) -> None:
        """Learn from a step; steps too small for measuring prefill are ignored."""
        if tokens < _SMALLEST:
            return
        measured = seconds / tokens
        known = self._seconds_per_token
        if known is not None:
            measured = _MEMORY * known + (1 - _MEMORY) * measured
        self._seconds_per_token = measured
        self._fit(max(measured, 1e-9))

    def _fit(self, cost: float) -> None:
        """Change the chunk where it takes clearly too long, or twice as much would not."""
        if self._chunk * cost > _STEP_SECONDS * _SLACK:
            self._chunk = max(_SMALLEST, _power_of_two(_STEP_SECONDS / cost))
        else:
            self._chunk = max(self._chunk, _power_of_two(_STEP_SECONDS / _SLACK / cost))


def _power_of_two(number: float) -> int:
    """The largest one that is not above the number, which is at least 1; at most 2 ** 30."""
    return 1 << min(30, math.frexp(max(1.0, number))[1] - 1)


def needs_short_steps(decoding: Iterable[Sequence], prompts: Iterable[Sequence]) -> bool:
    """Whether prefill may interrupt the decoding sequences for a short pause only.

    It may interrupt those of batches, and those that came together with one of the prompts: all
    answers to requests made at once are complete sooner if prefill is not cut into small chunks.
    """
    arrivals = [prompt.arrived_at for prompt in prompts]
    return any(
        sequence.priority is not Priority.BATCH
        and all(abs(sequence.arrived_at - arrival) > _TOGETHER_SECONDS for arrival in arrivals)
        for sequence in decoding
    )


def whole_tiles(prompt_tokens: int, others: int) -> int:
    """Return fewer prompt tokens if the step, with its `others`, then has no partial tile."""
    whole = prompt_tokens - (prompt_tokens + others) % TILE
    return whole if whole >= TILE else prompt_tokens


_SURE = 4
"""The prompt that came first is sure of this fraction's inverse, however many shorter ones come."""


def split_prefill(prompts: Mapping[Sequence, int], room: int) -> dict[Sequence, int]:
    """Tokens for each prompt, `room` in all: interactive before batch, the shortest rest first.

    `prompts` has the most tokens of each in this step. A short question behind a long document is
    answered as soon as if it were alone, which delays the document by no more than the question's
    own tokens. The oldest prompt gets a quarter in any case, so that it takes at most four times
    as long as alone.
    """
    shares: dict[Sequence, int] = {}
    for priority in Priority:
        mine = [sequence for sequence in prompts if sequence.priority is priority]
        if not mine or room < 1:
            continue
        oldest = min(mine, key=lambda sequence: sequence.arrived_at)
        shares[oldest] = min(prompts[oldest], max(1, room // _SURE))
        room -= shares[oldest]
        for sequence in sorted(mine, key=lambda sequence: sequence.num_pending):
            given = shares.get(sequence, 0)
            more = min(prompts[sequence] - given, room)
            if more > 0:
                shares[sequence] = given + more
                room -= more
    return shares
