"""The scheduler: continuous batching of prefill and decode at token granularity."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...base.events import FinishReason, TokenLogprobs
from ..batch import Batch, Sampled, ScheduledChunk
from ..kv_store.kv_store import KVStore
from ..model_runner import ModelRunner
from ..sequence import Sequence
from ..speculation.draft import Speculator
from .admission_control import AdmissionControl
from .kv_fetches import Fetches
from .prefill_budget import TILE, ChunkBudget, needs_short_steps, split_prefill, whole_tiles
from .running_sequences import RunningSequences, can_be_followed
from .waiting_queue import WaitingQueue


@dataclass(frozen=True)
class SequenceOutput:
    """A sequence's new tokens, and the reason if it ends with them.

    The first `prescribed` of them belong to its scored prompt. With an `error` it is cancelled, and
    its last token is invalid.
    """

    sequence: Sequence
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None
    finish_reason: FinishReason | None
    error: str | None = None
    prescribed: int = 0


_PREFILL_STEPS = 3
"""Long steps without decoding in a row. A row of another sequence makes 256 tokens of prefill 3 %
slower on a CPU, where one token a second is of little use to its reader."""


class Scheduler:
    """Decides which tokens the next batch computes: decode first, then chunks of prefill.

    Every decoding sequence gets its next token in every step, or in every fourth while prompts that
    came together with it are read in long steps. The rest of the token budget goes to prefill,
    limited so that steps stay short for decoding sequences. `AdmissionControl` decides which
    waiting sequences begin. When KV blocks run out, a sequence is preempted, so that no request
    fails because of load.
    While a batch runs on the device, the next one can be scheduled as if that one was computed.
    Nothing is preempted then, and finished sequences keep their blocks until their last batch is
    complete.
    """

    def __init__(
        self,
        runner: ModelRunner,
        speculator: Speculator | None = None,
        store: KVStore | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` is called from another thread when there is work that `has_work` did not show."""
        self._runner = runner
        self._speculator = speculator
        self.kv = runner.open_cache(store)
        """The manager of the KV cache."""
        self._fetches = Fetches(store, wake) if store is not None else None
        self._chunks = ChunkBudget(runner.max_batch_tokens)
        self.waiting = WaitingQueue()
        self._sequences = RunningSequences(runner, self.kv, self.waiting)
        self.admission = AdmissionControl(
            runner, self.kv, self.waiting, self._sequences, self._fetches
        )
        self._in_flight = 0
        self._prefill_steps = 0
        """Those since the decoding sequences got a token."""

    @property
    def running(self) -> list[Sequence]:
        """The running sequences."""
        return self._sequences.running

    @property
    def preemptions(self) -> int:
        """How many sequences were preempted so far."""
        return self._sequences.preemptions

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        if self.running or self._in_flight or (self.waiting and not self.waiting.settled):
            return True
        # If no sequence runs, all that wait are being fetched.
        return self._fetches is not None and self._fetches.has_ended

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence; raises ValueError if its prompt fills the context."""
        if not 0 < sequence.prompt_length < self._runner.context:
            raise ValueError(f"prompt of {sequence.prompt_length} tokens does not fit the context")
        self.waiting.add(sequence)

    def share_machine(self, contended: bool) -> None:
        """Record whether another model waits for the CPUs while a step is computed."""
        self._chunks.contended = contended

    def schedule(self) -> Batch:
        """Return the next batch, if none is launched; empty only if no sequence runs."""
        self._sequences.reserve_decode()
        if self.running:
            self.kv.make_light()
        batch = self._fill()
        while self.running and not batch.chunks and self._sequences.preempt_one():
            batch = self._fill()
        self.kv.reserve(batch)
        batch.seconds = self._chunks.expect(batch.num_tokens)
        return batch

    def is_long(self, batch: Batch) -> bool:
        """Whether the step takes longer than a short pause."""
        return self._chunks.is_long(batch.num_tokens)

    def schedule_ahead(self, previous: Batch) -> Batch | None:
        """Return the batch after the in-flight one, without drafts; None if it must wait."""
        if self.admission.is_held_up or not can_be_followed(previous, self._runner):
            return None
        # New requests would wait for both; a gap between long steps costs little.
        if self._chunks.is_long(previous.num_tokens):
            return None
        if self._sequences.decode_demand > self.kv.available:
            return None
        if self._may_draft():
            return None
        batch = self._fill(drafts=False)
        if not batch.chunks:
            return None
        self.kv.reserve(batch)
        return batch

    def mark_launched(self, batch: Batch) -> None:
        """Record that a batch was launched."""
        batch.mark_launched()
        self._in_flight += 1

    def _fill(self, *, drafts: bool = True) -> Batch:
        batch = Batch()
        if self._decoding_waits():
            self._add_prompts(batch, self.kv.available - self._sequences.decode_demand)
            if batch.chunks:
                self._prefill_steps += 1
                return batch
        self._prefill_steps = 0
        room = self._add_decoding(batch, self.kv.available, drafts=drafts)
        self._add_prompts(batch, room)
        return batch

    def _decoding_waits(self) -> bool:
        """Whether the next step is prefill alone, since prefill is not cut short for decoding."""
        if self._prefill_steps >= _PREFILL_STEPS:
            return False
        prompts = [sequence for sequence in self.running if not sequence.is_decoding]
        if not prompts or not self._chunks.is_long(self._chunks.limit(short=False)):
            return False
        decoding = self._sequences.decoding
        return bool(decoding) and not needs_short_steps(decoding, prompts)

    def _add_decoding(self, batch: Batch, room: int, *, drafts: bool) -> int:
        """Add the next token of each decoding sequence, and drafts; returns the tokens left."""
        decoding: list[Sequence] = []
        limit = self._runner.max_batch_tokens
        for sequence in self._sequences.decoding:
            if len(decoding) < limit:
                taken = self.kv.growth(sequence, 1)
                if taken <= room:
                    room -= taken
                    decoding.append(sequence)
        most = min(limit - len(decoding), self.kv.most(decoding, room))
        proposed = self._drafts(decoding, most) if drafts else {}
        if proposed:  # for which the sequences may have got pages already
            room = self.kv.available - sum(self.kv.growth(s, 1) for s in decoding)
        for sequence in decoding:
            tokens = proposed.get(sequence, ())
            if tokens:
                taken = self.kv.growth(sequence, 1)
                tokens = tokens[: self.kv.most((sequence,), room + taken) - 1]
                room += taken - self.kv.growth(sequence, 1 + len(tokens))
            batch.add(sequence, 1, tokens)
        return room

    def _add_prompts(self, batch: Batch, room: int) -> None:
        """Divide the rest of the token budget among the prompts."""
        prompts = {s: self.kv.until_checkpoint(s) for s in self.running if not s.is_decoding}
        if not prompts:
            return
        decoding = [chunk.sequence for chunk in batch.chunks]
        most = self._chunks.limit(short=needs_short_steps(decoding, prompts))
        if len(prompts) > 1:  # a nearly finished prompt need not wait for the others
            pause = self._chunks.limit(short=True)
            most = min(most, max(pause, min(s.num_pending for s in prompts) + TILE - 1))
        most = min(most, self._runner.max_batch_tokens - batch.num_tokens)
        most = whole_tiles(min(most, self.kv.most(prompts, room)), batch.num_tokens)
        for sequence, share in split_prefill(prompts, most).items():
            left = self._runner.max_batch_tokens - batch.num_tokens
            limit = min(left, self.kv.most((sequence,), room))
            count = sequence.fit_chunk(min(share, limit), limit)
            if count > 0:
                drafts = self._prescribed(sequence, count, room, batch)
                room -= self.kv.growth(sequence, count + len(drafts))
                batch.add(sequence, count, drafts)

    def _prescribed(
        self, sequence: Sequence, count: int, room: int, batch: Batch
    ) -> tuple[int, ...]:
        """The next tokens of a scored prompt, whose logits the same step can compute."""
        if sequence.scored is None or count != sequence.num_pending:
            return ()
        used = sum(len(chunk.drafts) for chunk in batch.chunks)
        most = min(
            self._runner.max_drafts - used,
            self._runner.max_batch_tokens - batch.num_tokens - count,
            self.kv.most((sequence,), room) - count,
        )
        begin = len(sequence.token_ids)
        return tuple(sequence.scored[begin : begin + max(0, most)])

    def _drafts(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        room = min(room, self._runner.max_drafts)
        if self._speculator is None or not decoding or room < 1:
            return {}
        if len(decoding) < len(self.running):  # the budget is better used for prefill
            return {}
        return self._speculator.propose(decoding, room)

    def _may_draft(self) -> bool:
        """Whether the step after the in-flight one may have drafts worth waiting for."""
        if self._speculator is None or not all(s.is_decoding for s in self.running):
            return False
        decoding = self._sequences.decoding
        room = min(self._runner.max_batch_tokens - len(decoding), self._runner.max_drafts)
        return bool(decoding) and room > 0 and self._speculator.waits(decoding, room)

    def update(
        self, batch: Batch, sampled: Iterable[Sampled], seconds: float
    ) -> list[SequenceOutput]:
        """Record a computed batch, its sampled tokens, and the seconds it took."""
        self._chunks.observe(batch.num_tokens, seconds)
        batch.complete()
        self._in_flight -= 1
        now = time.monotonic()
        results = iter(sampled)
        outputs: list[SequenceOutput] = []
        for chunk in batch.chunks:
            sequence = chunk.sequence
            result = next(results) if chunk.samples else None
            if sequence.finish_reason is not None:  # it ended while this was computed
                if chunk.awaits is None:  # prefilled tokens are worth caching
                    self.kv.grow(sequence, chunk.count)
                self._sequences.release(sequence)
                continue
            if result is None:
                self.kv.grow(sequence, chunk.count)
                continue
            sequence.first_token_at = sequence.first_token_at or now
            sequence.last_token_at = now
            output = self._extend(chunk, result)
            outputs.append(output)
            if output.finish_reason is not None:
                self.finish(sequence, output.finish_reason)
        if self._speculator is not None and not any(chunk.is_scored for chunk in batch.chunks):
            self._speculator.observe(batch, seconds)
        return outputs

    def _extend(self, chunk: ScheduledChunk, sampled: Sampled) -> SequenceOutput:
        """Append sampled tokens up to the end of the sequence, and record the computed ones."""
        sequence = chunk.sequence
        reason: FinishReason | None = None
        prescribed = sequence.num_prescribed
        count = 0
        for token_id in sampled.token_ids:
            sequence.token_ids.append(token_id)
            count += 1
            if (reason := self._finish_reason(sequence, token_id)) is not None:
                break
        if sampled.error is not None:
            reason = FinishReason.CANCELLED
        elif sampled.complete and count == len(sampled.token_ids):
            reason = FinishReason.STOP
        self.kv.grow(sequence, chunk.count + count - 1)
        if chunk.drafts and not chunk.is_scored:
            sequence.drafted_tokens += len(chunk.drafts)
            sequence.accepted_tokens += count - 1
        if count <= len(chunk.drafts):
            self.kv.trim(sequence)
        logprobs = sampled.logprobs[:count] if sampled.logprobs is not None else None
        return SequenceOutput(
            sequence,
            sampled.token_ids[:count],
            logprobs,
            reason,
            sampled.error,
            prescribed=min(prescribed, count),
        )

    def force_tokens(self, sequence: Sequence, token_ids: Iterable[int]) -> list[int]:
        """Append tokens that were not sampled; returns those that fit and the grammar allows.

        They are prefilled like the tokens of a preempted sequence.
        """
        if sequence.num_awaited:
            raise ValueError("a batch samples a token of this sequence")
        most = self._runner.context - 1 - len(sequence.token_ids)
        if sequence.max_tokens is not None:
            most = min(most, sequence.max_tokens - 1 - sequence.num_generated)
        forced: list[int] = []
        for token_id in token_ids:
            constraint = sequence.constraint
            if len(forced) >= most or (constraint is not None and not constraint.allows(token_id)):
                continue
            if constraint is not None:
                constraint.consume(token_id)
            forced.append(token_id)
        sequence.token_ids += forced
        return forced

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a sequence, running or waiting; does nothing if it ended before."""
        if sequence.finish_reason is not None:
            return
        sequence.finish_reason = reason
        if self._fetches is not None:
            self._fetches.cancel(sequence)
        self.waiting.leave(sequence)
        if self._speculator is not None:
            self._speculator.forget(sequence)
        if sequence.slot >= 0:
            self._sequences.finish(sequence)
        else:
            self._runner.forget(sequence)

    def evict_or_preempt(self) -> bool:
        """Evict the oldest cached tokens, else preempt one of several sequences."""
        return self.kv.evict_oldest() or self._sequences.preempt_one()

    def admit(self) -> list[Sequence]:
        """Admit waiting sequences; returns those that begin for the first time.

        Their `cached_tokens` are those that were found in the cache.
        """
        return self.admission.admit(in_flight=self._in_flight > 0)

    def _finish_reason(self, sequence: Sequence, token_id: int) -> FinishReason | None:
        if sequence.num_generated <= 0:
            return None  # it belongs to a scored prompt
        if token_id in sequence.stop_token_ids:
            return FinishReason.STOP
        if not sequence.ignore_eos and self._runner.is_eog(token_id):
            return FinishReason.STOP
        if sequence.max_tokens is not None and sequence.num_generated >= sequence.max_tokens:
            return FinishReason.LENGTH
        if len(sequence.token_ids) >= self._runner.context:
            return FinishReason.LENGTH
        return None
