"""The sequences that hold KV blocks: preemption, and what an in-flight batch decides."""

from __future__ import annotations

from ...base.requests import Priority
from ..batch import Batch, ScheduledChunk
from ..kv_cache import KVCache
from ..model_runner import ModelRunner
from ..sequence import Sequence
from .waiting_queue import WaitingQueue


def can_be_followed(batch: Batch, runner: ModelRunner) -> bool:
    """Whether the next batch needs to know nothing that this one, which is launched, draws.

    Either for all of its sequences or for none: one that had to sit out every other step would
    get tokens half as fast as those beside it.
    """
    if not runner.can_run_ahead or batch.has_drafts:
        return False
    return all(_can_be_followed(chunk, runner) for chunk in batch.sampling)


def is_last(sequence: Sequence, context: int) -> bool:
    """Whether the token that an in-flight batch draws is the sequence's last, whatever it is.

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


class RunningSequences:
    """Running sequences, and preemption among them.

    A preempted sequence gives up its blocks and goes back to the waiting queue; what is lost of its
    keys and values is computed again later. Batch sequences are preempted first, the youngest of
    them before the others.
    """

    def __init__(self, runner: ModelRunner, kv: KVCache, waiting: WaitingQueue) -> None:
        self._runner = runner
        self._kv = kv
        self._waiting = waiting
        self.running: list[Sequence] = []
        self.leaving: list[Sequence] = []
        """Finished sequences that an in-flight batch still writes to."""
        self.preemptions = 0

    @property
    def slots_taken(self) -> int:
        """The number of sequences that hold KV blocks."""
        return len(self.running) + len(self.leaving)

    @property
    def decoding(self) -> list[Sequence]:
        """The running sequences that need one more token."""
        context = self._runner.context
        return [s for s in self.running if s.is_decoding and not is_last(s, context)]

    @property
    def decode_demand(self) -> int:
        """KV tokens to allocate for one more token of every decoding sequence."""
        return sum(self._kv.growth(sequence, 1) for sequence in self.decoding)

    def reserve_decode(self) -> None:
        """Preempt until every decoding sequence can take one more token."""
        while self.decode_demand > self._kv.available:
            if not self.preempt_one():
                return

    def preempt_one(self) -> bool:
        """Preempt one of several running sequences; False if there are fewer than two."""
        if len(self.running) < 2:
            return False
        self._preempt(_preemption_victim(self.running))
        return True

    def preempt_batch(self) -> None:
        """Preempt a sequence of priority `BATCH`; there must be one."""
        self._preempt(_preemption_victim(self.batch_sequences))

    @property
    def batch_sequences(self) -> list[Sequence]:
        """The running sequences of priority `BATCH`."""
        return [sequence for sequence in self.running if sequence.priority is Priority.BATCH]

    def finish(self, sequence: Sequence) -> None:
        """End a running sequence."""
        self.running.remove(sequence)
        self.leaving.append(sequence)
        self.release(sequence)

    def release(self, sequence: Sequence) -> None:
        """Release the blocks of a finished sequence, unless an in-flight batch writes to them."""
        if sequence.num_in_flight:
            return
        self.leaving.remove(sequence)
        self._kv.keep(sequence)
        self._runner.forget(sequence)
        self._waiting.settled = False

    def _preempt(self, sequence: Sequence) -> None:
        assert not sequence.num_in_flight
        self.running.remove(sequence)
        self._kv.keep(sequence)  # its blocks stay in the prefix cache until they are needed
        sequence.fetches = 0
        self._waiting.put_back(sequence)
        self.preemptions += 1


def _preemption_victim(running: list[Sequence]) -> Sequence:
    """Return the batch sequence that arrived last, else the interactive one."""
    return max(reversed(running), key=lambda s: (s.priority is Priority.BATCH, s.arrived_at))
