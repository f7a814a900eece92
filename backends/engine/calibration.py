"""Measuring a model's steps before it has anything to do."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..base import SamplingParams
from .batch import Batch
from .model_runner import ModelRunner
from .sequence import Sequence
from .step_costs import StepCosts


def measure_steps(runner: ModelRunner, costs: StepCosts, sizes: Iterable[int]) -> None:
    """Teach `costs` what steps of these sizes take; empties the runner's cache."""
    for slot in range(runner.cache_slots):
        runner.release(slot)
    for size in sizes:
        if size <= min(runner.max_batch_tokens, runner.context, 1 + runner.max_drafts):
            costs.observe(size, _time_step(runner, size))


def _time_step(runner: ModelRunner, size: int) -> float:
    sequence = Sequence("calibration", 0, [0], SamplingParams(temperature=0))
    sequence.slot = 0
    batch = Batch()
    batch.add(sequence, 1, (0,) * (size - 1))
    began = time.monotonic()
    runner.launch(batch)
    runner.collect()
    seconds = time.monotonic() - began
    runner.release(0)
    return seconds
