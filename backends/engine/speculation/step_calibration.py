"""Measuring a model's steps before it has anything to do."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np

from ...base.sampling_params import SamplingParams
from ..batch import Batch
from ..kv_cache import KVCache
from ..model_runner import ModelRunner
from ..sequence import Sequence
from .step_costs import StepCosts


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
