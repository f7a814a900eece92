"""Decides which tokens the next step computes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from ..base import FinishReason
from .batch import Batch
from .kv_ledger import KVLedger
from .model_runner import ModelRunner
from .sequence import Sequence


@dataclass(frozen=True)
class SequenceOutput:
    """A sequence's new token, and why it ends with it, if it does."""

    sequence: Sequence
    token_id: int
    finish_reason: FinishReason | None


class Scheduler:
    """Continuous batching at token granularity: decode first, then chunks of prompts.

    Every running sequence gets its next token in every step; what is left of the token budget goes
    to prompts, oldest first. When the cache runs out, the youngest sequence is preempted: it gives
    up its cells and is computed again later, so that no request fails for load alone.
    """

    def __init__(self, runner: ModelRunner) -> None:
        self._runner = runner
        self._ledger = KVLedger(runner.kv_capacity, runner.slots)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.preemptions = 0

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.waiting or self.running)

    @property
    def kv_used(self) -> int:
        """Cache cells in use."""
        return self._ledger.used

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence; its prompt must leave room for one token in the context."""
        if not 0 < sequence.prompt_length < self._runner.context:
            raise ValueError(f"prompt of {sequence.prompt_length} tokens does not fit the context")
        self.waiting.append(sequence)

    def schedule(self) -> Batch:
        """The next batch; empty only when there is no work."""
        self._admit()
        self._make_room()
        batch = self._fill()
        while self.running and not batch.chunks and self.preempt_youngest():
            batch = self._fill()
        return batch

    def _fill(self) -> Batch:
        batch = Batch()
        budget = min(self._runner.max_batch_tokens, self._ledger.free)
        for sequence in self.running:
            if sequence.is_decoding and batch.num_tokens < budget:
                batch.add(sequence, 1)
        for sequence in self.running:
            room = budget - batch.num_tokens
            if room > 0 and not sequence.is_decoding:
                batch.add(sequence, min(sequence.num_pending, room))
        return batch

    def update(self, batch: Batch, sampled: Iterable[int]) -> list[SequenceOutput]:
        """Book a computed batch and the tokens sampled from it."""
        now = time.monotonic()
        tokens = iter(sampled)
        outputs: list[SequenceOutput] = []
        for chunk in batch.chunks:
            sequence = chunk.sequence
            sequence.num_computed += chunk.count
            self._ledger.grow(sequence, chunk.count)
            if not chunk.samples:
                continue
            token_id = next(tokens)
            sequence.token_ids.append(token_id)
            sequence.first_token_at = sequence.first_token_at or now
            sequence.last_token_at = now
            reason = self._finish_reason(sequence, token_id)
            outputs.append(SequenceOutput(sequence, token_id, reason))
            if reason is not None:
                self.finish(sequence, reason)
        return outputs

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a sequence, wherever it is; one that ended already stays as it is."""
        if sequence.finish_reason is not None:
            return
        sequence.finish_reason = reason
        if sequence.slot >= 0:
            self.running.remove(sequence)
            self._vacate(sequence)
        else:
            self.waiting.remove(sequence)
        self._runner.forget(sequence)

    def preempt_youngest(self) -> bool:
        """Send the youngest of several running sequences back to the queue."""
        if len(self.running) < 2:
            return False
        sequence = self.running.pop()
        self._vacate(sequence)
        self.waiting.appendleft(sequence)
        self.preemptions += 1
        return True

    def _admit(self) -> None:
        """Move waiting sequences into slots while the cache has room for all they know."""
        if not self.waiting or not self._ledger.has_free_slot:
            return
        claimed = sum(sequence.num_pending for sequence in self.running)
        for sequence in list(self.waiting):
            if not self._ledger.has_free_slot:
                return
            shared = self._sharable(sequence)
            if shared is None:
                continue
            needed = len(sequence.token_ids) - shared
            if self.running and claimed + needed > self._ledger.free:
                return
            self.waiting.remove(sequence)
            self._start(sequence, shared)
            claimed += needed

    def _start(self, sequence: Sequence, shared: int) -> None:
        self._ledger.open(sequence)
        sequence.started_at = sequence.started_at or time.monotonic()
        if shared:
            assert sequence.parent is not None
            self._runner.fork(sequence.parent.slot, sequence.slot, shared)
            self._ledger.share(sequence.parent, sequence, shared)
            sequence.num_computed = shared
        self.running.append(sequence)

    def _sharable(self, sequence: Sequence) -> int | None:
        """Prompt tokens to take over from the parent; None while they are not computed yet."""
        parent = sequence.parent
        if parent is None or parent.slot < 0 or sequence.num_generated or not self._runner.can_fork:
            return 0
        length = sequence.prompt_length - 1
        return length if parent.num_computed >= length else None

    def _make_room(self) -> None:
        """Preempt until every decoding sequence can take one more cell."""
        while sum(sequence.is_decoding for sequence in self.running) > self._ledger.free:
            if not self.preempt_youngest():
                return

    def _vacate(self, sequence: Sequence) -> None:
        self._runner.release(sequence.slot)
        self._ledger.close(sequence)

    def _finish_reason(self, sequence: Sequence, token_id: int) -> FinishReason | None:
        if not sequence.ignore_eos and self._runner.is_eog(token_id):
            return FinishReason.STOP
        if sequence.max_tokens is not None and sequence.num_generated >= sequence.max_tokens:
            return FinishReason.LENGTH
        if len(sequence.token_ids) >= self._runner.context:
            return FinishReason.LENGTH
        return None
