"""Decides which tokens the next step computes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..base import FinishReason, TokenLogprobs
from .batch import Batch, Chunk, Sampled
from .chunk_budget import ChunkBudget
from .kv_cache import MIN_SHARED, KVCache
from .model_runner import ModelRunner
from .sequence import Sequence
from .speculator import Speculator


@dataclass(frozen=True)
class SequenceOutput:
    """A sequence's new tokens, and why it ends with them, if it does."""

    sequence: Sequence
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None
    finish_reason: FinishReason | None


class Scheduler:
    """Continuous batching at token granularity: decode first, then chunks of prompts.

    Every running sequence gets its next token in every step; what is left of the token budget goes
    to prompts, oldest first, and only so much of it as keeps the steps short for those who decode.
    When the cache runs out, the youngest sequence is preempted: it gives
    up its cells and is computed again later, so that no request fails for load alone.
    """

    def __init__(self, runner: ModelRunner, speculator: Speculator | None = None) -> None:
        self._runner = runner
        self._speculator = speculator
        self._kv = KVCache(runner)
        self._chunks = ChunkBudget(runner.max_batch_tokens)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.preemptions = 0

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.waiting or self.running)

    @property
    def kv_used(self) -> int:
        """Cache cells of running sequences."""
        return self._kv.used

    @property
    def kv_kept(self) -> int:
        """Cache cells kept for a request that begins alike."""
        return self._kv.kept

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence; its prompt must leave room for one token in the context."""
        if not 0 < sequence.prompt_length < self._runner.context:
            raise ValueError(f"prompt of {sequence.prompt_length} tokens does not fit the context")
        self.waiting.append(sequence)

    def schedule(self) -> Batch:
        """The next batch of what runs; empty only when nothing does."""
        self._make_room()
        batch = self._fill()
        while self.running and not batch.chunks and self._preempt_youngest():
            batch = self._fill()
        self._kv.reserve(batch.num_tokens)
        return batch

    def _fill(self) -> Batch:
        batch = Batch()
        budget = min(self._runner.max_batch_tokens, self._kv.available)
        decoding = [sequence for sequence in self.running if sequence.is_decoding][:budget]
        drafts = self._drafts(decoding, budget - len(decoding))
        for sequence in decoding:
            batch.add(sequence, 1, drafts.get(sequence, ()))
        prompts = self._chunks.limit(decoding=batch.num_tokens > 0)
        budget = min(budget, batch.num_tokens + prompts)
        for sequence in self.running:
            room = budget - batch.num_tokens
            if room > 0 and not sequence.is_decoding:
                batch.add(sequence, min(self._kv.until_checkpoint(sequence), room))
        return batch

    def _drafts(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        room = min(room, self._runner.max_drafts)
        if self._speculator is None or not decoding or room < 1:
            return {}
        if len(decoding) < len(self.running):  # room is better used for the prompts that are read
            return {}
        return self._speculator.propose(decoding, room)

    def update(
        self, batch: Batch, sampled: Iterable[Sampled], seconds: float
    ) -> list[SequenceOutput]:
        """Book a computed batch, what was sampled from it, and how long that took."""
        self._chunks.observe(batch.num_tokens, seconds)
        now = time.monotonic()
        results = iter(sampled)
        outputs: list[SequenceOutput] = []
        for chunk in batch.chunks:
            sequence = chunk.sequence
            if not chunk.samples:
                self._kv.grow(sequence, chunk.count)
                continue
            sequence.first_token_at = sequence.first_token_at or now
            sequence.last_token_at = now
            output = self._extend(chunk, next(results))
            outputs.append(output)
            if output.finish_reason is not None:
                self.finish(sequence, output.finish_reason)
        if self._speculator is not None:
            self._speculator.observe(batch, seconds)
        return outputs

    def _extend(self, chunk: Chunk, sampled: Sampled) -> SequenceOutput:
        """Append what a chunk got, as far as the sequence goes, and book what was computed."""
        sequence = chunk.sequence
        reason: FinishReason | None = None
        count = 0
        for token_id in sampled.token_ids:
            sequence.token_ids.append(token_id)
            count += 1
            if (reason := self._finish_reason(sequence, token_id)) is not None:
                break
        self._kv.grow(sequence, chunk.count + count - 1)
        if chunk.drafts:
            sequence.drafted_tokens += len(chunk.drafts)
            sequence.accepted_tokens += count - 1
            if count <= len(chunk.drafts):
                self._runner.trim(sequence.slot, sequence.num_computed)
        logprobs = sampled.logprobs[:count] if sampled.logprobs is not None else None
        return SequenceOutput(sequence, sampled.token_ids[:count], logprobs, reason)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a sequence, wherever it is; one that ended already stays as it is."""
        if sequence.finish_reason is not None:
            return
        sequence.finish_reason = reason
        if sequence.slot >= 0:
            self.running.remove(sequence)
            self._kv.keep(sequence)
        else:
            self.waiting.remove(sequence)
        self._runner.forget(sequence)
        if self._speculator is not None:
            self._speculator.forget(sequence)

    def relieve(self) -> bool:
        """Give up something in the cache: what is kept, else the youngest of several sequences."""
        return self._kv.give_up_oldest() or self._preempt_youngest()

    def admit(self) -> list[Sequence]:
        """Move waiting sequences into slots while there is room for all they know.

        Returns those that began now; `cached_tokens` tells what they found in the cache.
        """
        began: list[Sequence] = []
        if not self.waiting or len(self.running) >= self._runner.slots:
            return began
        claimed = sum(sequence.num_pending for sequence in self.running)
        for sequence in list(self.waiting):
            if len(self.running) >= self._runner.slots or claimed >= self._kv.available:
                break
            if self._waits_for_parent(sequence):
                continue
            tokens = np.asarray(sequence.token_ids, np.int32)
            prefix = self._kv.match(tokens, minimum=1 if sequence.parent else MIN_SHARED)
            if self.running and claimed + len(tokens) - prefix.active > self._kv.available:
                break
            self.waiting.remove(sequence)
            self._kv.open(sequence, prefix)
            self.running.append(sequence)
            claimed += sequence.num_pending
            if not sequence.started_at:
                sequence.started_at = time.monotonic()
                sequence.cached_tokens = prefix.length
                began.append(sequence)
        return began

    def _waits_for_parent(self, sequence: Sequence) -> bool:
        """Whether the prompt to share is still being computed."""
        parent = sequence.parent
        if parent is None or parent.slot < 0:
            return False
        return parent.num_computed < sequence.prompt_length - 1

    def _make_room(self) -> None:
        """Preempt until every decoding sequence can take one more cell."""
        while sum(sequence.is_decoding for sequence in self.running) > self._kv.available:
            if not self._preempt_youngest():
                return

    def _preempt_youngest(self) -> bool:
        """Send the youngest of several running sequences back to the queue."""
        if len(self.running) < 2:
            return False
        sequence = self.running.pop()
        self._kv.drop(sequence)
        self.waiting.appendleft(sequence)
        self.preemptions += 1
        return True

    def _finish_reason(self, sequence: Sequence, token_id: int) -> FinishReason | None:
        if not sequence.ignore_eos and self._runner.is_eog(token_id):
            return FinishReason.STOP
        if sequence.max_tokens is not None and sequence.num_generated >= sequence.max_tokens:
            return FinishReason.LENGTH
        if len(sequence.token_ids) >= self._runner.context:
            return FinishReason.LENGTH
        return None
