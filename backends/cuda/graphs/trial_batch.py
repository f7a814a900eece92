"""A batch to try a step with, before there are any requests."""

from __future__ import annotations

from ingle.models.fit.paged_fit import PAGE_SIZE

from ...base.sampling_params import SamplingParams
from ...engine.batch import Batch
from ...engine.sequence import Sequence


def trial_batch(count: int, tokens: int, context: int) -> Batch:
    """A batch of `count` sequences, each with its share of `tokens`, that all sample."""
    share = min(tokens // count, context)
    pages = -(-share // PAGE_SIZE)
    batch = Batch()
    for row in range(count):
        sequence = Sequence("trial", row, [0] * share, SamplingParams(seed=0))
        sequence.slot = row
        sequence.block_table = list(range(row * pages, (row + 1) * pages))
        batch.add(sequence, share)
    return batch
