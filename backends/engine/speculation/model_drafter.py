"""Draft tokens by a smaller model of the same family, which prefills the same sequences."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ...base.sampling_params import SamplingParams
from ..batch import Batch
from ..model_runner import KVCacheFull, ModelRunner
from ..sequence import Sequence
from .draft import AcceptanceRates, Draft
from .step_costs import StepCosts

_LEAST_SURE = 0.4
"""A draft ends before a token to which the model gives a smaller probability."""
SHORT_LAG = 16
"""Tokens that are prefilled together with the first draft token."""
_PREFILL_SECONDS = 0.05
_LEAST_PREFILL = 16
_PRIOR = (0.75,)


class DraftRunner(ModelRunner, Protocol):
    """A model runner that returns the probability of its likeliest token."""

    def collect_likeliest(self) -> list[tuple[int, float]]:
        """The likeliest token of each sampling chunk, and its probability."""
        ...


@dataclass(eq=False)
class _DraftSequence:
    """The draft model's copy of a sequence.

    `own` holds the verified tokens, then draft tokens; the first `recorded` are recorded in the
    cache manager, the first `own.num_computed` are computed. `drafted` are the last draft's tokens.
    """

    own: Sequence
    rates: AcceptanceRates
    recorded: int
    drafted: list[int] = field(default_factory=list[int])
    drafted_from: int = 0


class ModelDrafter:
    """Drafts greedily with a second model, for all sequences of a step at once.

    Its cache follows the sequences of the first model, and caches finished ones, so that the next
    turn of a conversation shares their prefix in both models.
    """

    def __init__(self, runner: DraftRunner, costs: StepCosts | None = None) -> None:
        """Take over the runner's whole cache; `costs` are the measured times of its steps."""
        self._runner = runner
        self._kv = runner.open_cache()
        self._costs = costs or StepCosts()
        self._rates = AcceptanceRates(_PRIOR, weight=20, memory=300)
        self._copies: dict[Sequence, _DraftSequence] = {}
        self._seconds_per_token: float | None = None

    def chance(self, sequence: Sequence) -> float:
        """The probability that a draft token for this sequence is accepted."""
        copy = self._copies.get(sequence)
        usual = self._rates.chance(0)
        return copy.rates.chance(0, usual) if copy is not None else usual

    def seconds(self, sequences: int, depth: int) -> float:
        """Seconds to draft `depth` tokens for so many sequences."""
        return depth * self._costs.seconds(sequences) if self._costs.known else 0.0

    def lag(self, sequence: Sequence) -> int:
        """Tokens that the draft model has to prefill before it can draft."""
        copy = self._copy_of(sequence)
        if copy is None:
            return len(sequence.token_ids)
        return len(sequence.token_ids) - copy.own.num_computed

    def prefill_seconds(self, tokens: int) -> float:
        """Seconds to prefill so many tokens."""
        if self._seconds_per_token is not None:
            return tokens * self._seconds_per_token
        return tokens * self._costs.seconds(1) if self._costs.known else 0.0

    def catch_up(self, sequence: Sequence) -> bool:
        """Prefill as much as a short pause allows; True once the model can draft."""
        self._settle_all()
        copy = self._copy_of(sequence)
        if copy is None:
            return False
        lag = len(sequence.token_ids) - copy.own.num_computed
        if lag <= SHORT_LAG:
            return True
        most = self._runner.max_batch_tokens
        if self._seconds_per_token is not None:
            most = min(most, max(_LEAST_PREFILL, int(_PREFILL_SECONDS / self._seconds_per_token)))
        else:
            most = min(most, 4 * _LEAST_PREFILL)
        count = min(lag - 1, most)
        if self._kv.growth(copy.own, count) > self._kv.available:
            return False
        began = time.monotonic()
        batch = Batch()
        batch.add(copy.own, count)
        if not self._launch(batch):
            return False
        self._runner.collect()
        self._kv.grow(copy.own, count)
        copy.recorded += count
        self._learn_prefill((time.monotonic() - began) / count)
        return lag - count <= SHORT_LAG

    def draft(self, sequences: list[Sequence], depth: int) -> dict[Sequence, Draft]:
        """Up to `depth` draft tokens for each of the sequences that have memory for them."""
        self._settle_all()
        copies = self._with_capacity(sequences, depth)
        drafts: dict[Sequence, Draft] = {}
        for sequence, copy in copies.items():
            drafts[sequence] = Draft()
            copy.drafted, copy.drafted_from = [], len(sequence.token_ids)
        active = copies
        for _ in range(depth):
            if not active:
                break
            active = self._draft_token(active, drafts)
        return {sequence: draft for sequence, draft in drafts.items() if draft.tokens}

    def forget(self, sequence: Sequence) -> None:
        """Cache the tokens of a finished sequence for prefix sharing."""
        copy = self._copies.get(sequence)
        if copy is not None:
            self._settle(sequence, copy)
            del self._copies[sequence]
            self._kv.keep(copy.own)

    def prepare_step(self) -> bool:
        """See `ModelRunner.prepare_step`."""
        return self._runner.prepare_step()

    def close(self) -> None:
        """Free the model."""
        self._runner.close()

    def _draft_token(
        self, active: dict[Sequence, _DraftSequence], drafts: dict[Sequence, Draft]
    ) -> dict[Sequence, _DraftSequence]:
        """Draft one more token each; returns the sequences whose token is likely enough."""
        batch = Batch()
        for copy in active.values():
            batch.add(copy.own, copy.own.num_pending)
        began = time.monotonic()
        if not self._launch(batch):
            return {}
        sure: dict[Sequence, _DraftSequence] = {}
        likeliest = self._runner.collect_likeliest()
        if batch.num_tokens == len(active):
            self._costs.observe(len(active), time.monotonic() - began)
        for (sequence, copy), (token, probability) in zip(active.items(), likeliest, strict=True):
            copy.own.num_computed = len(copy.own.token_ids)
            if probability < _LEAST_SURE:
                continue
            draft = drafts[sequence]
            chance = self.chance(sequence) * (draft.chances[-1] if draft.chances else 1.0)
            draft.tokens.append(token)
            draft.chances.append(chance)
            copy.drafted.append(token)
            copy.own.token_ids.append(token)
            sure[sequence] = copy
        return sure

    def _launch(self, batch: Batch) -> bool:
        self._kv.reserve(batch)
        try:
            self._runner.launch(batch)
        except KVCacheFull:
            return False
        return True

    def _with_capacity(
        self, sequences: list[Sequence], depth: int
    ) -> dict[Sequence, _DraftSequence]:
        """The sequences that are up to date and whose drafts fit into the cache."""
        known = {sequence: self._copy_of(sequence) for sequence in sequences}
        room, tokens = self._kv.available, self._runner.max_batch_tokens
        reserved = Batch()
        found: dict[Sequence, _DraftSequence] = {}
        for sequence, copy in known.items():
            if copy is None:
                continue
            lag = len(sequence.token_ids) - copy.own.num_computed
            room -= self._kv.growth(copy.own, lag + depth)
            tokens -= lag + depth
            if room < 0 or tokens < 0:
                break
            if lag <= SHORT_LAG and len(sequence.token_ids) + depth <= self._runner.context:
                found[sequence] = copy
                reserved.add(copy.own, copy.own.num_pending, (0,) * depth)
        # Draft tokens are not recorded in the cache, so memory is reserved for all at once.
        self._kv.reserve(reserved)
        return found

    def _copy_of(self, sequence: Sequence) -> _DraftSequence | None:
        """The draft model's copy, updated to the sampled tokens; None if there is no slot."""
        copy = self._copies.get(sequence)
        if copy is not None:
            self._settle(sequence, copy)
            return copy
        if len(self._copies) >= self._runner.slots and not self._release_one():
            return None
        tokens = list(sequence.token_ids)
        own = Sequence(sequence.request_id, sequence.index, tokens, SamplingParams(temperature=0))
        own.prompt_length = sequence.prompt_length
        self._kv.open(own, self._kv.match(np.asarray(tokens, np.int32)))
        rates = AcceptanceRates(_PRIOR, weight=4, memory=40)
        copy = self._copies[sequence] = _DraftSequence(own, rates, own.num_computed)
        return copy

    def _release_one(self) -> bool:
        """Release the slot of a sequence that is not running; False if all are."""
        for sequence in self._copies:
            if sequence.slot < 0:
                self.forget(sequence)
                return True
        return False

    def _settle_all(self) -> None:
        for sequence, copy in self._copies.items():
            self._settle(sequence, copy)

    def _settle(self, sequence: Sequence, copy: _DraftSequence) -> None:
        """Keep the accepted draft tokens, and append the tokens sampled since."""
        own, truth = copy.own, sequence.token_ids
        self._observe(copy, truth)
        right = copy.recorded
        most = min(own.num_computed, len(truth) - 1)
        while right < most and own.token_ids[right] == truth[right]:
            right += 1
        left = own.num_computed - right
        if right > copy.recorded:
            count, own.num_computed = right - copy.recorded, right
            self._kv.grow(own, count)
            copy.recorded = right
        if left > 0:
            self._kv.trim(own)
        own.num_computed = right
        if len(own.token_ids) != len(truth) or own.token_ids[right:] != truth[right:]:
            own.token_ids[right:] = truth[right:]

    def _observe(self, copy: _DraftSequence, truth: list[int]) -> None:
        """Learn from the draft tokens, up to the first rejected one."""
        known = truth[copy.drafted_from :]
        if not copy.drafted or not known:
            return
        for draft, token in zip(copy.drafted, known, strict=False):
            copy.rates.observe(0, right=draft == token)
            self._rates.observe(0, right=draft == token)
            if draft != token:
                break
        copy.drafted = []

    def _learn_prefill(self, seconds: float) -> None:
        known = self._seconds_per_token
        self._seconds_per_token = seconds if known is None else 0.7 * known + 0.3 * seconds
