"""Admission control: which waiting sequences begin with the next step."""

from __future__ import annotations

import time
from itertools import chain

from ...base.requests import Priority
from ..kv_cache import MIN_SHARED, KVCache, Prefix
from ..model_runner import ModelRunner
from ..sequence import Sequence
from .kv_fetches import Fetches
from .running_sequences import RunningSequences
from .waiting_queue import WaitingQueue


class AdmissionControl:
    """Admits waiting sequences while there are slots and KV blocks for all of their tokens.

    An interactive sequence may preempt batch sequences. A sequence of which more is stored than
    cached waits until its keys and values are fetched.
    """

    def __init__(
        self,
        runner: ModelRunner,
        kv: KVCache,
        waiting: WaitingQueue,
        running: RunningSequences,
        fetches: Fetches | None,
    ) -> None:
        self._slots = runner.slots
        self._kv = kv
        self._waiting = waiting
        self._sequences = running
        self._fetches = fetches
        self.is_held_up = False
        """Whether a sequence could begin if no batch was launched."""
        self.cached_tokens = 0
        """Prompt tokens that admitted sequences found in the cache."""

    @property
    def fetching(self) -> int:
        """The number of waiting sequences whose keys and values are being fetched."""
        return len(self._fetches) if self._fetches is not None else 0

    def admit(self, *, in_flight: bool) -> list[Sequence]:
        """Admit waiting sequences; returns those that begin for the first time.

        Nothing is preempted while a batch is `in_flight`.
        """
        if self._fetches is not None and self._fetches.take_ended():
            self._waiting.settled = False
        self.is_held_up = False
        began: list[Sequence] = []
        if self._waiting.settled:
            return began
        settled = True
        for sequence in self._waiting.candidates():
            if self._is_fetching(sequence) or self._is_fetching(sequence.parent):
                continue
            if _waits_for_parent(sequence):
                settled = False
                continue
            if self._slots_taken >= self._slots and not self._may_displace(sequence):
                break
            prefix = self._find_prefix(sequence, in_flight=in_flight)
            if prefix is not None:
                if self._fetches is None or not self._fetches.begin(sequence, prefix.length):
                    began += self._begin(sequence, prefix)
            elif self.is_held_up:
                settled = False
                break
            elif not self._waiting.refuse(sequence):
                break
        self._waiting.settled = settled
        return began

    def _find_prefix(self, sequence: Sequence, *, in_flight: bool) -> Prefix | None:
        """Return the cached prefix of the sequence; None if slots or blocks are missing."""
        tokens = sequence.key_tokens()
        while True:
            prefix = self._kv.match(tokens, minimum=1 if sequence.parent else MIN_SHARED)
            missing = self._claimed + self._kv.room(len(tokens)) - prefix.active
            missing -= self._kv.available
            if not self._sequences.slots_taken:
                return prefix
            if missing <= 0 and self._slots_taken < self._slots:
                return prefix
            if not self._displace(sequence, missing, in_flight=in_flight):
                return None

    def _begin(self, sequence: Sequence, prefix: Prefix) -> list[Sequence]:
        """Let a sequence run; returns it unless it was preempted before."""
        resumes = sequence.started_at > 0
        self._kv.open(sequence, prefix)
        self._waiting.begin(sequence, 0 if resumes else sequence.num_pending)
        self._sequences.running.append(sequence)
        if resumes:
            return []
        sequence.started_at = time.monotonic()
        sequence.cached_tokens = sequence.num_computed
        self.cached_tokens += sequence.num_computed
        return [sequence]

    @property
    def _slots_taken(self) -> int:
        """Slots in use, and those of sequences that begin once they are fetched."""
        return self._sequences.slots_taken + self.fetching

    @property
    def _claimed(self) -> int:
        """KV tokens that running and fetched sequences still have to allocate."""
        begun = chain(self._sequences.running, self._fetches or ())
        return sum(self._kv.growth(sequence, sequence.num_pending) for sequence in begun)

    def _is_fetching(self, sequence: Sequence | None) -> bool:
        return self._fetches is not None and sequence in self._fetches

    def _may_displace(self, sequence: Sequence) -> bool:
        """Whether it has priority over a running sequence."""
        interactive = sequence.priority is Priority.INTERACTIVE
        return interactive and bool(self._sequences.batch_sequences)

    def _displace(self, sequence: Sequence, missing: int, *, in_flight: bool) -> bool:
        """Preempt a batch sequence for an interactive one, if that can free what is missing."""
        batch = self._sequences.batch_sequences
        gain = sum(self._kv.room(len(running.token_ids)) for running in batch)
        if not self._may_displace(sequence) or missing > gain:
            return False
        if in_flight:
            self.is_held_up = True
            return False
        self._sequences.preempt_batch()
        return True


def _waits_for_parent(sequence: Sequence) -> bool:
    """Whether the prompt that it shares with another sequence is still being computed."""
    parent = sequence.parent
    if parent is None or parent.slot < 0:
        return False
    return parent.num_computed < sequence.prompt_length - 1
