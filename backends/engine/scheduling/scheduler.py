"""Decides which tokens the next step computes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ...base.events import FinishReason, TokenLogprobs
from ...base.requests import Priority
from ..batch import Batch, Sampled, ScheduledChunk
from ..kv_cache import MIN_SHARED, KVCache, Prefix
from ..kv_store.kv_store import KVStore
from ..model_runner import ModelRunner
from ..sequence import Sequence
from ..speculation.speculator import Speculator
from .kv_fetches import Fetches
from .overlap_scheduling import can_be_followed, is_last
from .prefill_budget import ChunkBudget
from .prefill_split import split_prefill
from .waiting_queue import WaitingQueue


@dataclass(frozen=True)
class SequenceOutput:
    """A sequence's new tokens, and why it ends with them, if it does.

    With an `error` it is cancelled, and its last token means nothing.
    """

    sequence: Sequence
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None
    finish_reason: FinishReason | None
    error: str | None = None


class Scheduler:
    """Continuous batching at token granularity: decode first, then chunks of prompts.

    Every running sequence gets its next token in every step; what is left of the token budget goes
    to prompts, and only so much of it as keeps the steps short for those who decode. Who begins
    next is decided by `WaitingQueue`.
    When the cache runs out, a sequence is preempted, of the batch ones if there are any, and of
    these the youngest: it gives up its room, and what is lost of it is computed again later, so
    that no request fails for load alone. An interactive sequence that finds no room takes it from
    batch ones in the same way.
    While a batch is in flight the next one can be scheduled, as if that one was computed. Nobody
    is preempted then, and who ends leaves the cache once the last batch it is in has landed.
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
        self._kv = runner.open_cache(store)
        self._fetches = Fetches(store, wake) if store is not None else None
        self._chunks = ChunkBudget(runner.max_batch_tokens)
        self.waiting = WaitingQueue()
        self.running: list[Sequence] = []
        self.preemptions = 0
        self.cached_tokens = 0
        """Prompt tokens that sequences found computed when they began."""
        self._leaving: list[Sequence] = []
        self._in_flight = 0
        self._is_held_up = False  # somebody could begin if nothing was in flight

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        if self.running or self._in_flight or (self.waiting and not self.waiting.settled):
            return True
        # Where nobody runs, those who wait are being read for.
        return self._fetches is not None and self._fetches.has_ended

    @property
    def fetching(self) -> int:
        """Sequences in `waiting` whose keys and values are being read."""
        return len(self._fetches) if self._fetches is not None else 0

    @property
    def kv_used(self) -> int:
        """Room in the cache of running sequences, in tokens."""
        return self._kv.used

    @property
    def kv_kept(self) -> int:
        """Room in the cache kept for a request that begins alike, in tokens."""
        return self._kv.kept

    @property
    def kv(self) -> KVCache:
        """The cache's book."""
        return self._kv

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence; its prompt must leave room for one token in the context."""
        if not 0 < sequence.prompt_length < self._runner.context:
            raise ValueError(f"prompt of {sequence.prompt_length} tokens does not fit the context")
        self.waiting.add(sequence)

    def share_machine(self, contended: bool) -> None:
        """Take note of whether another model waits for the processors while a step is computed."""
        self._chunks.contended = contended

    def schedule(self) -> Batch:
        """The next batch of what runs, with nothing in flight; empty only when nothing runs."""
        self._make_room()
        if self.running:
            self._kv.make_light()
        batch = self._fill()
        while self.running and not batch.chunks and self._preempt_one():
            batch = self._fill()
        self._kv.reserve(batch)
        return batch

    def schedule_ahead(self, flight: Batch) -> Batch | None:
        """The batch behind the one in flight, without drafts; None where that must land first."""
        if self._is_held_up or not can_be_followed(flight, self._runner):
            return None
        # What comes meanwhile would wait for both; a pause between long steps is not felt.
        if self._chunks.is_long(flight.num_tokens) or self._room_to_decode > self._kv.available:
            return None
        if self._may_guess():
            return None
        batch = self._fill(guess=False)
        if not batch.chunks:
            return None
        self._kv.reserve(batch)
        return batch

    def take_off(self, batch: Batch) -> None:
        """Book that a batch was launched."""
        batch.take_off()
        self._in_flight += 1

    def _fill(self, *, guess: bool = True) -> Batch:
        batch = Batch()
        room = self._add_decoding(batch, self._kv.available, guess=guess)
        self._add_prompts(batch, room)
        return batch

    def _add_decoding(self, batch: Batch, room: int, *, guess: bool) -> int:
        """Give each decoding sequence its next token, and guesses; returns what room is left."""
        decoding: list[Sequence] = []
        limit = self._runner.max_batch_tokens
        for sequence in self._decoding:
            if len(decoding) < limit:
                taken = self._kv.growth(sequence, 1)
                if taken <= room:
                    room -= taken
                    decoding.append(sequence)
        most = min(limit - len(decoding), self._kv.most(decoding, room))
        drafts = self._drafts(decoding, most) if guess else {}
        for sequence in decoding:
            guesses = drafts.get(sequence, ())
            if guesses:
                taken = self._kv.growth(sequence, 1)
                guesses = guesses[: self._kv.most((sequence,), room + taken) - 1]
                room += taken - self._kv.growth(sequence, 1 + len(guesses))
            batch.add(sequence, 1, guesses)
        return room

    def _add_prompts(self, batch: Batch, room: int) -> None:
        """Divide what is left of the step among the prompts."""
        prompts = {s: self._kv.until_checkpoint(s) for s in self.running if not s.is_decoding}
        most = self._chunks.limit(decoding=batch.num_tokens > 0)
        if len(prompts) > 1:  # one that is nearly read need not wait for much of the others
            pause = self._chunks.limit(decoding=True)
            most = min(most, max(pause, min(s.num_pending for s in prompts)))
        most = min(most, self._runner.max_batch_tokens - batch.num_tokens)
        most = min(most, self._kv.most(prompts, room))
        for sequence, share in split_prefill(prompts, most).items():
            count = min(share, self._kv.most((sequence,), room))
            if count > 0:
                room -= self._kv.growth(sequence, count)
                batch.add(sequence, count)

    def _drafts(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        room = min(room, self._runner.max_drafts)
        if self._speculator is None or not decoding or room < 1:
            return {}
        if len(decoding) < len(self.running):  # room is better used for the prompts that are read
            return {}
        return self._speculator.propose(decoding, room)

    def _may_guess(self) -> bool:
        """Whether the step behind the one in flight may have drafts worth waiting for."""
        if self._speculator is None or not all(s.is_decoding for s in self.running):
            return False
        decoding = self._decoding
        room = min(self._runner.max_batch_tokens - len(decoding), self._runner.max_drafts)
        return bool(decoding) and room > 0 and self._speculator.waits(decoding, room)

    def update(
        self, batch: Batch, sampled: Iterable[Sampled], seconds: float
    ) -> list[SequenceOutput]:
        """Book a computed batch, what was sampled from it, and how long that took."""
        self._chunks.observe(batch.num_tokens, seconds)
        batch.land()
        self._in_flight -= 1
        now = time.monotonic()
        results = iter(sampled)
        outputs: list[SequenceOutput] = []
        for chunk in batch.chunks:
            sequence = chunk.sequence
            drawn = next(results) if chunk.samples else None
            if sequence.finish_reason is not None:  # it ended while this was computed for it
                if chunk.awaits is None:  # what was read of a prompt is worth keeping
                    self._kv.grow(sequence, chunk.count)
                self._let_go(sequence)
                continue
            if drawn is None:
                self._kv.grow(sequence, chunk.count)
                continue
            sequence.first_token_at = sequence.first_token_at or now
            sequence.last_token_at = now
            output = self._extend(chunk, drawn)
            outputs.append(output)
            if output.finish_reason is not None:
                self.finish(sequence, output.finish_reason)
        if self._speculator is not None:
            self._speculator.observe(batch, seconds)
        return outputs

    def _extend(self, chunk: ScheduledChunk, sampled: Sampled) -> SequenceOutput:
        """Append what a chunk got, as far as the sequence goes, and book what was computed."""
        sequence = chunk.sequence
        reason: FinishReason | None = None
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
        self._kv.grow(sequence, chunk.count + count - 1)
        if chunk.drafts:
            sequence.drafted_tokens += len(chunk.drafts)
            sequence.accepted_tokens += count - 1
            if count <= len(chunk.drafts):
                self._kv.trim(sequence)
        logprobs = sampled.logprobs[:count] if sampled.logprobs is not None else None
        return SequenceOutput(sequence, sampled.token_ids[:count], logprobs, reason, sampled.error)

    def dictate(self, sequence: Sequence, token_ids: Iterable[int]) -> list[int]:
        """Append tokens that nobody drew to what is known of a sequence, as far as they fit.

        They are computed like what was lost of one that was preempted.
        """
        if sequence.num_awaited:
            raise ValueError("a token of this sequence is in flight")
        most = self._runner.context - 1 - len(sequence.token_ids)
        if sequence.max_tokens is not None:
            most = min(most, sequence.max_tokens - 1 - sequence.num_generated)
        said: list[int] = []
        for token_id in token_ids:
            constraint = sequence.constraint
            if len(said) >= most or (constraint is not None and not constraint.allows(token_id)):
                continue
            if constraint is not None:
                constraint.consume(token_id)
            said.append(token_id)
        sequence.token_ids += said
        return said

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a sequence, wherever it is; one that ended already stays as it is."""
        if sequence.finish_reason is not None:
            return
        sequence.finish_reason = reason
        if self._fetches is not None:
            self._fetches.cancel(sequence)
        self.waiting.leave(sequence)
        if self._speculator is not None:
            self._speculator.forget(sequence)
        if sequence.slot >= 0:
            self.running.remove(sequence)
            self._leaving.append(sequence)
            self._let_go(sequence)
        else:
            self._runner.forget(sequence)

    def _let_go(self, sequence: Sequence) -> None:
        """Take out of the cache who ended, unless something in flight still writes there."""
        if sequence.num_in_flight:
            return
        self._leaving.remove(sequence)
        self._kv.keep(sequence)
        self._runner.forget(sequence)
        self.waiting.settled = False

    def relieve(self) -> bool:
        """Give up something in the cache: what is kept, else one of several sequences."""
        return self._kv.give_up_oldest() or self._preempt_one()

    def admit(self) -> list[Sequence]:
        """Move waiting sequences into slots while there is room for all they know.

        Returns those that began now; `cached_tokens` tells what they found in the cache.
        """
        self._take_fetched()
        self._is_held_up = False
        began: list[Sequence] = []
        if self.waiting.settled:
            return began
        settled = True
        for sequence in self.waiting.candidates():
            if self._is_fetching(sequence) or self._is_fetching(sequence.parent):
                continue
            if self._waits_for_parent(sequence):
                settled = False
                continue
            if self._slots_taken >= self._runner.slots and not self._may_displace(sequence):
                break
            prefix = self._find_room(sequence)
            if prefix is not None:
                if not self._begin_fetch(sequence, prefix):
                    began += self._begin(sequence, prefix)
            elif self._is_held_up:
                settled = False
                break
            elif not self.waiting.refuse(sequence):
                break
        self.waiting.settled = settled
        return began

    def _find_room(self, sequence: Sequence) -> Prefix | None:
        """What the cache has of the sequence; None while there is no slot or not enough room."""
        tokens = np.asarray(sequence.token_ids, np.int32)
        while True:
            prefix = self._kv.match(tokens, minimum=1 if sequence.parent else MIN_SHARED)
            missing = self._claimed + self._kv.room(len(tokens)) - prefix.active
            missing -= self._kv.available
            nobody_runs = not self.running and not self._leaving
            if nobody_runs or (missing <= 0 and self._slots_taken < self._runner.slots):
                return prefix
            if not self._displace(sequence, missing):
                return None

    def _begin(self, sequence: Sequence, prefix: Prefix) -> list[Sequence]:
        """Let it run; returns it where it was not preempted before."""
        resumes = sequence.started_at > 0
        self._kv.open(sequence, prefix)
        self.waiting.begin(sequence, 0 if resumes else sequence.num_pending)
        self.running.append(sequence)
        if resumes:
            return []
        sequence.started_at = time.monotonic()
        sequence.cached_tokens = sequence.num_computed
        self.cached_tokens += sequence.num_computed
        return [sequence]

    @property
    def _slots_taken(self) -> int:
        """Slots of those that run or just did, and of those that will once they are read."""
        return len(self.running) + len(self._leaving) + self.fetching

    @property
    def _claimed(self) -> int:
        """Room that those who began, or are being read for, need for all they know."""
        begun = chain(self.running, self._fetches or ())
        return sum(self._kv.growth(sequence, sequence.num_pending) for sequence in begun)

    def _begin_fetch(self, sequence: Sequence, prefix: Prefix) -> bool:
        """Whether the sequence has to wait for more than the cache has of it."""
        return self._fetches is not None and self._fetches.begin(sequence, prefix.length)

    def _is_fetching(self, sequence: Sequence | None) -> bool:
        return self._fetches is not None and sequence in self._fetches

    def _take_fetched(self) -> None:
        """Let those go on whose keys and values are read."""
        if self._fetches is not None and self._fetches.take_ended():
            self.waiting.settled = False

    def _may_displace(self, sequence: Sequence) -> bool:
        """Whether it goes before something that runs."""
        return sequence.priority is Priority.INTERACTIVE and any(
            running.priority is Priority.BATCH for running in self.running
        )

    def _displace(self, sequence: Sequence, missing: int) -> bool:
        """Preempt one batch sequence for an interactive one, if that can gain the missing room."""
        batch = [running for running in self.running if running.priority is Priority.BATCH]
        gain = sum(self._kv.room(len(running.token_ids)) for running in batch)
        if not self._may_displace(sequence) or missing > gain:
            return False
        if self._in_flight:
            self._is_held_up = True
            return False
        self._preempt(_first_to_go(batch))
        return True

    def _waits_for_parent(self, sequence: Sequence) -> bool:
        """Whether the prompt to share is still being computed."""
        parent = sequence.parent
        if parent is None or parent.slot < 0:
            return False
        return parent.num_computed < sequence.prompt_length - 1

    def _make_room(self) -> None:
        """Preempt until every decoding sequence can take one more token."""
        while self._room_to_decode > self._kv.available:
            if not self._preempt_one():
                return

    @property
    def _room_to_decode(self) -> int:
        return sum(self._kv.growth(sequence, 1) for sequence in self._decoding)

    @property
    def _decoding(self) -> list[Sequence]:
        """Those that want one more token."""
        context = self._runner.context
        return [s for s in self.running if s.is_decoding and not is_last(s, context)]

    def _preempt_one(self) -> bool:
        """Send one of several running sequences back to the queue."""
        if len(self.running) < 2:
            return False
        self._preempt(_first_to_go(self.running))
        return True

    def _preempt(self, sequence: Sequence) -> None:
        assert not sequence.num_in_flight
        self.running.remove(sequence)
        self._kv.keep(sequence)  # whoever needs the cells takes them; else they are found again
        sequence.fetches = 0
        self.waiting.put_back(sequence)
        self.preemptions += 1

    def _finish_reason(self, sequence: Sequence, token_id: int) -> FinishReason | None:
        if not sequence.ignore_eos and self._runner.is_eog(token_id):
            return FinishReason.STOP
        if sequence.max_tokens is not None and sequence.num_generated >= sequence.max_tokens:
            return FinishReason.LENGTH
        if len(sequence.token_ids) >= self._runner.context:
            return FinishReason.LENGTH
        return None


def _first_to_go(running: list[Sequence]) -> Sequence:
    """The batch sequence that arrived last, else the interactive one."""
    return max(reversed(running), key=lambda s: (s.priority is Priority.BATCH, s.arrived_at))
