"""Draft tokens by a head of the model itself, which computes them from its hidden states."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from ...base.sampling_params import SamplingParams
from ..batch import Batch
from ..model_runner import ModelRunner
from ..sequence import Sequence
from .draft import AcceptanceRates, Draft
from .step_costs import StepCosts

_LEAST_SURE = 0.4
"""A draft ends before a token to which the head gives a smaller probability."""
_PRIOR = (0.75,)
_TRIAL_DEPTH = 3


class HeadSteps(Protocol):
    """The head of a model, in the steps of its runner."""

    def draft(self, sequences: list[Sequence], depth: int) -> list[list[tuple[int, float]]]:
        """Up to `depth` likely tokens to follow each sequence, and each one's probability.

        None for a sequence without memory for them, or just restored. Nothing is launched, and of
        each sequence all but the last token is computed.
        """
        ...


class HeadDrafter:
    """Drafts greedily with the head of a model, whose keys and values each step computes along."""

    def __init__(self, head: HeadSteps, costs: StepCosts | None = None) -> None:
        """`costs` are the measured times of one drafted token."""
        self._head = head
        self._costs = costs or StepCosts()
        self._rates = AcceptanceRates(_PRIOR, weight=20, memory=300)
        self._own: dict[Sequence, AcceptanceRates] = {}
        self._drafted: dict[Sequence, tuple[int, list[int]]] = {}

    def chance(self, sequence: Sequence) -> float:
        """See `ModelDrafter`."""
        self._observe(sequence)
        usual, own = self._rates.chance(0), self._own.get(sequence)
        return usual if own is None else own.chance(0, usual)

    def seconds(self, sequences: int, depth: int) -> float:
        """See `ModelDrafter`."""
        return depth * self._costs.seconds(sequences) if self._costs.known else 0.0

    def lag(self, sequence: Sequence) -> int:
        """None: the steps of the model are the head's own."""
        del sequence
        return 0

    def prefill_seconds(self, tokens: int) -> float:
        """None, since there is no lag."""
        del tokens
        return 0.0

    def catch_up(self, sequence: Sequence) -> bool:
        """Always up to date."""
        del sequence
        return True

    def draft(self, sequences: list[Sequence], depth: int) -> dict[Sequence, Draft]:
        """See `ModelDrafter`."""
        began = time.monotonic()
        found = self._head.draft(sequences, depth)
        if all(found):
            self._costs.observe(len(sequences), (time.monotonic() - began) / depth)
        drafts: dict[Sequence, Draft] = {}
        for sequence, likely in zip(sequences, found, strict=True):
            usual, draft = self.chance(sequence), Draft()
            for token, probability in likely:
                if probability < _LEAST_SURE:
                    break
                chance = usual * (draft.chances[-1] if draft.chances else 1.0)
                draft.tokens.append(token)
                draft.chances.append(chance)
            if draft.tokens:
                drafts[sequence] = draft
                self._drafted[sequence] = len(sequence.token_ids), list(draft.tokens)
        return drafts

    def prepare_step(self) -> bool:
        """Nothing to prepare: the head's part of a step is recorded with it, its own are not."""
        return False

    def forget(self, sequence: Sequence) -> None:
        """See `ModelDrafter`."""
        self._observe(sequence)
        self._own.pop(sequence, None)
        self._drafted.pop(sequence, None)

    def close(self) -> None:
        """Nothing: the runner frees the head with the model."""

    def _observe(self, sequence: Sequence) -> None:
        """Learn from the last draft, up to its first wrong token."""
        begin, drafted = self._drafted.get(sequence, (0, []))
        known = sequence.token_ids[begin:] if drafted else []
        if not known:
            return
        del self._drafted[sequence]
        if sequence not in self._own:
            self._own[sequence] = AcceptanceRates(_PRIOR, weight=4, memory=40)
        for draft, token in zip(drafted, known, strict=False):
            for rates in (self._rates, self._own[sequence]):
                rates.observe(0, right=draft == token)
            if draft != token:
                break


def measure_head(runner: ModelRunner, head: HeadSteps, costs: StepCosts) -> None:
    """Teach `costs` what drafting a token takes; empties the runner's cache."""
    cache = runner.open_cache()
    sequence = Sequence("calibration", 0, [0, 0], SamplingParams(temperature=0))
    cache.open(sequence, cache.match(np.zeros(1, np.int32)))
    batch = Batch()
    batch.add(sequence, 1)
    cache.reserve(batch)
    runner.launch(batch)
    runner.collect()
    cache.grow(sequence, 1)
    for trial in range(3):
        began = time.monotonic()
        head.draft([sequence], _TRIAL_DEPTH)
        if trial:  # the first one loads kernels
            costs.observe(1, (time.monotonic() - began) / _TRIAL_DEPTH)
    cache.keep(sequence)
