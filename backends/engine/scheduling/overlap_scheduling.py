"""What has to be known of a batch before the next one can be launched."""

from __future__ import annotations

from ..batch import Batch, ScheduledChunk
from ..model_runner import ModelRunner
from ..sequence import Sequence


def can_be_followed(batch: Batch, runner: ModelRunner) -> bool:
    """Whether the next batch needs to know nothing that this one, which is in flight, draws.

    Either for all of its sequences or for none: one that had to sit out every other step would
    get tokens half as fast as those beside it.
    """
    if not runner.can_run_ahead or batch.has_drafts:
        return False
    return all(_can_be_followed(chunk, runner) for chunk in batch.sampling)


def is_last(sequence: Sequence, context: int) -> bool:
    """Whether the token that a batch in flight draws is the sequence's last, whatever it is.

    The last before a pause counts as such: what follows it is decided when it is known.
    """
    if not sequence.num_awaited:
        return False
    for most in (sequence.max_tokens, sequence.pauses_at):
        if most is not None and sequence.num_sampled >= most:
            return True
    return len(sequence.token_ids) + sequence.num_awaited >= context


def _can_be_followed(chunk: ScheduledChunk, runner: ModelRunner) -> bool:
    sequence = chunk.sequence
    if sequence.finish_reason is not None or is_last(sequence, runner.context):
        return True
    return sequence.constraint is None and runner.can_follow(sequence.sampling)
