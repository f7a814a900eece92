"""Guesses by a smaller model of the same family, which reads along."""

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
"""A draft ends where the model gives its best guess a smaller probability than this."""
SHORT_LAG = 16
"""Tokens that are read together with the first guess."""
_READING_SECONDS = 0.05
_FEWEST_READ = 16
_PRIOR = (0.75,)


class DraftRunner(ModelRunner, Protocol):
    """A model runner that can say how sure it is."""

    def collect_likeliest(self) -> list[tuple[int, float]]:
        """The likeliest token of each sampling chunk, and its probability."""
        ...


@dataclass(eq=False)
class _Reader:
    """One sequence as the draft model has it.

    `own` holds the tokens that were agreed on, then guesses; the first `booked` are in the books of
    the cache, the first `own.num_computed` really are in it. `guesses` are the last draft's.
    """

    own: Sequence
    rates: AcceptanceRates
    booked: int
    guesses: list[int] = field(default_factory=list[int])
    guessed_from: int = 0


class ModelDrafter:
    """Guesses greedily with a second model, for all sequences of a step at once.

    Its cache follows the sequences of the first model, and keeps what ended, so that the next turn
    of a conversation is read by both models from where they know it.
    """

    def __init__(self, runner: DraftRunner, costs: StepCosts | None = None) -> None:
        """Takes over the runner's whole cache; `costs` is what is known of its steps."""
        self._runner = runner
        self._kv = runner.open_cache()
        self._costs = costs or StepCosts()
        self._rates = AcceptanceRates(_PRIOR, weight=20, memory=300)
        self._readers: dict[Sequence, _Reader] = {}
        self._read_seconds: float | None = None

    def chance(self, sequence: Sequence) -> float:
        """The probability that a guess for this sequence is right."""
        reader = self._readers.get(sequence)
        usual = self._rates.chance(0)
        return reader.rates.chance(0, usual) if reader is not None else usual

    def seconds(self, sequences: int, depth: int) -> float:
        """What guessing `depth` tokens for so many sequences takes."""
        return depth * self._costs.seconds(sequences) if self._costs.known else 0.0

    def lag(self, sequence: Sequence) -> int:
        """Tokens the draft model has yet to read before it can guess."""
        reader = self._reader(sequence)
        if reader is None:
            return len(sequence.token_ids)
        return len(sequence.token_ids) - reader.own.num_computed

    def reading_seconds(self, tokens: int) -> float:
        """What reading so many tokens takes."""
        if self._read_seconds is not None:
            return tokens * self._read_seconds
        return tokens * self._costs.seconds(1) if self._costs.known else 0.0

    def catch_up(self, sequence: Sequence) -> bool:
        """Read as much as a short pause allows; True once the model can guess."""
        self._settle_all()
        reader = self._reader(sequence)
        if reader is None:
            return False
        lag = len(sequence.token_ids) - reader.own.num_computed
        if lag <= SHORT_LAG:
            return True
        most = self._runner.max_batch_tokens
        if self._read_seconds is not None:
            most = min(most, max(_FEWEST_READ, int(_READING_SECONDS / self._read_seconds)))
        else:
            most = min(most, 4 * _FEWEST_READ)
        count = min(lag - 1, most)
        if self._kv.growth(reader.own, count) > self._kv.available:
            return False
        began = time.monotonic()
        batch = Batch()
        batch.add(reader.own, count)
        if not self._launch(batch):
            return False
        self._runner.collect()
        self._kv.grow(reader.own, count)
        reader.booked += count
        self._learn_reading((time.monotonic() - began) / count)
        return lag - count <= SHORT_LAG

    def draft(self, sequences: list[Sequence], depth: int) -> dict[Sequence, Draft]:
        """Up to `depth` guesses for each of the sequences that can have any."""
        self._settle_all()
        readers = self._those_with_room(sequences, depth)
        drafts: dict[Sequence, Draft] = {}
        for sequence, reader in readers.items():
            drafts[sequence] = Draft()
            reader.guesses, reader.guessed_from = [], len(sequence.token_ids)
        active = readers
        for _ in range(depth):
            if not active:
                break
            active = self._guess(active, drafts)
        return {sequence: draft for sequence, draft in drafts.items() if draft.tokens}

    def forget(self, sequence: Sequence) -> None:
        """Keep what was read of a sequence that ended, for the next that begins alike."""
        reader = self._readers.get(sequence)
        if reader is not None:
            self._settle(sequence, reader)
            del self._readers[sequence]
            self._kv.keep(reader.own)

    def close(self) -> None:
        """Free the model."""
        self._runner.close()

    def _guess(
        self, active: dict[Sequence, _Reader], drafts: dict[Sequence, Draft]
    ) -> dict[Sequence, _Reader]:
        """One more token each; returns those who are sure enough to go on."""
        batch = Batch()
        for reader in active.values():
            batch.add(reader.own, reader.own.num_pending)
        began = time.monotonic()
        if not self._launch(batch):
            return {}
        sure: dict[Sequence, _Reader] = {}
        likeliest = self._runner.collect_likeliest()
        if batch.num_tokens == len(active):
            self._costs.observe(len(active), time.monotonic() - began)
        for (sequence, reader), (token, probability) in zip(active.items(), likeliest, strict=True):
            reader.own.num_computed = len(reader.own.token_ids)
            if probability < _LEAST_SURE:
                continue
            draft = drafts[sequence]
            chance = self.chance(sequence) * (draft.chances[-1] if draft.chances else 1.0)
            draft.tokens.append(token)
            draft.chances.append(chance)
            reader.guesses.append(token)
            reader.own.token_ids.append(token)
            sure[sequence] = reader
        return sure

    def _launch(self, batch: Batch) -> bool:
        self._kv.reserve(batch)
        try:
            self._runner.launch(batch)
        except KVCacheFull:
            return False
        return True

    def _those_with_room(self, sequences: list[Sequence], depth: int) -> dict[Sequence, _Reader]:
        """The readers that are up to date and whose guesses the cache can hold."""
        known = {sequence: self._reader(sequence) for sequence in sequences}
        room, tokens = self._kv.available, self._runner.max_batch_tokens
        reserved = Batch()
        found: dict[Sequence, _Reader] = {}
        for sequence, reader in known.items():
            if reader is None:
                continue
            lag = len(sequence.token_ids) - reader.own.num_computed
            room -= self._kv.growth(reader.own, lag + depth)
            tokens -= lag + depth
            if room < 0 or tokens < 0:
                break
            if lag <= SHORT_LAG and len(sequence.token_ids) + depth <= self._runner.context:
                found[sequence] = reader
                reserved.add(reader.own, reader.own.num_pending, (0,) * depth)
        # No book knows where guesses are, so that room is made for all of them at once.
        self._kv.reserve(reserved)
        return found

    def _reader(self, sequence: Sequence) -> _Reader | None:
        """The sequence's reader, brought up to what was sampled; None where there is no slot."""
        reader = self._readers.get(sequence)
        if reader is not None:
            self._settle(sequence, reader)
            return reader
        if len(self._readers) >= self._runner.slots and not self._let_go_of_one():
            return None
        tokens = list(sequence.token_ids)
        own = Sequence(sequence.request_id, sequence.index, tokens, SamplingParams(temperature=0))
        own.prompt_length = sequence.prompt_length
        self._kv.open(own, self._kv.match(np.asarray(tokens, np.int32)))
        rates = AcceptanceRates(_PRIOR, weight=4, memory=40)
        reader = self._readers[sequence] = _Reader(own, rates, own.num_computed)
        return reader

    def _let_go_of_one(self) -> bool:
        """Give up the place of a sequence that waits for one itself."""
        for sequence in self._readers:
            if sequence.slot < 0:
                self.forget(sequence)
                return True
        return False

    def _settle_all(self) -> None:
        for sequence, reader in self._readers.items():
            self._settle(sequence, reader)

    def _settle(self, sequence: Sequence, reader: _Reader) -> None:
        """Keep of the guesses what was right, and take in the tokens that came since."""
        own, truth = reader.own, sequence.token_ids
        self._judge(reader, truth)
        right = reader.booked
        most = min(own.num_computed, len(truth) - 1)
        while right < most and own.token_ids[right] == truth[right]:
            right += 1
        left = own.num_computed - right
        if right > reader.booked:
            count, own.num_computed = right - reader.booked, right
            self._kv.grow(own, count)
            reader.booked = right
        if left > 0:
            self._kv.trim(own)
        own.num_computed = right
        if len(own.token_ids) != len(truth) or own.token_ids[right:] != truth[right:]:
            own.token_ids[right:] = truth[right:]

    def _judge(self, reader: _Reader, truth: list[int]) -> None:
        """Learn from the guesses, up to the first wrong one."""
        known = truth[reader.guessed_from :]
        if not reader.guesses or not known:
            return
        for guess, token in zip(reader.guesses, known, strict=False):
            reader.rates.observe(0, right=guess == token)
            self._rates.observe(0, right=guess == token)
            if guess != token:
                break
        reader.guesses = []

    def _learn_reading(self, seconds: float) -> None:
        known = self._read_seconds
        self._read_seconds = seconds if known is None else 0.7 * known + 0.3 * seconds
