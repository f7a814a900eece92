"""How long a decode step takes, learned while it runs."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from ...base.sampling_params import SamplingParams
from ..batch import Batch
from ..kv_cache import KVCache
from ..model_runner import ModelRunner
from ..sequence import Sequence

_SCALE_RATE = 0.2
_SHAPE_RATE = 0.05
_OUTLIER = 2.0
_UNSEEN_SLOPE = 0.5
"""What a token beyond the sizes that were seen is taken to cost at most, of one in the smallest."""


class StepCosts:
    """Seconds of a step as a function of the tokens in it, all of which get logits.

    Whether they belong to one sequence or to many makes no difference that could be measured, so
    their number is the only argument. What is learned is a shape times a scale: the scale follows
    quickly what slows all steps alike (a longer context, another process), the shape slowly what
    each size costs beside the others. Sizes not seen lie on the line between their neighbours. The
    curve may fall: kernels for a few rows are often slower than those for several.
    """

    def __init__(self) -> None:
        self._scale = 0.0
        self._sizes: list[int] = []
        self._shape: dict[int, float] = {}
        self._count: dict[int, int] = {}

    @property
    def known(self) -> bool:
        """Whether any step was seen."""
        return bool(self._sizes)

    def seconds(self, tokens: int) -> float:
        """What a step of so many tokens will take; only where something is `known`."""
        return self._scale * self._at(tokens)

    def observe(self, tokens: int, seconds: float) -> None:
        """Learn from one step."""
        if seconds <= 0:
            return
        if not self._sizes:
            self._scale = seconds
            self._set(tokens, 1.0)
            return
        expected = self.seconds(tokens)
        if tokens not in self._shape:
            self._set(tokens, min(seconds, _OUTLIER * expected) / self._scale)
            return
        # A step that was interrupted says little about its size.
        ratio = min(max(seconds / expected, 1 / _OUTLIER), _OUTLIER)
        self._count[tokens] += 1
        rate = max(_SHAPE_RATE, 1 / self._count[tokens])
        self._scale *= ratio**_SCALE_RATE
        self._shape[tokens] *= ratio ** (rate * (1 - _SCALE_RATE))

    def _set(self, tokens: int, value: float) -> None:
        self._shape[tokens] = value
        self._count[tokens] = 1
        self._sizes = sorted(self._shape)

    def _at(self, tokens: int) -> float:
        known = self._shape.get(tokens)
        if known is not None:
            return known
        sizes, shape = self._sizes, self._shape
        place = bisect_left(sizes, tokens)
        if 0 < place < len(sizes):
            low, high = sizes[place - 1], sizes[place]
            share = (tokens - low) / (high - low)
            return shape[low] + share * (shape[high] - shape[low])
        first, last = sizes[0], sizes[-1]
        slope = _UNSEEN_SLOPE * shape[first] / first
        if tokens < first:
            return shape[first] - slope * (first - tokens)
        if len(sizes) > 1:
            before = sizes[-2]
            slope = min(slope, max(0.0, (shape[last] - shape[before]) / (last - before)))
        return shape[last] + slope * (tokens - last)


def measure_steps(runner: ModelRunner, costs: StepCosts, sizes: Iterable[int]) -> None:
    """Teach `costs` what steps of these sizes take; empties the runner's cache."""
    cache = runner.open_cache()
    for size in sizes:
        if size <= min(runner.max_batch_tokens, runner.context, 1 + runner.max_drafts):
            costs.observe(size, _time_step(runner, cache, size))


def _time_step(runner: ModelRunner, cache: KVCache, size: int) -> float:
    sequence = Sequence("calibration", 0, [0], SamplingParams(temperature=0))
    cache.open(sequence, cache.match(np.zeros(1, np.int32)))
    batch = Batch()
    batch.add(sequence, 1, (0,) * (size - 1))
    cache.reserve(batch)
    began = time.monotonic()
    runner.launch(batch)
    runner.collect()
    seconds = time.monotonic() - began
    cache.keep(sequence)
    return seconds
