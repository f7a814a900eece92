"""Drafts, their acceptance rates, and the interface of what proposes them."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Protocol

from ..batch import Batch
from ..sequence import Sequence


@dataclass(frozen=True, slots=True)
class Draft:
    """Draft tokens, and for each the probability that it and all before it are accepted."""

    tokens: list[int] = field(default_factory=list[int])
    chances: list[float] = field(default_factory=list[float])

    def cut(self, length: int) -> tuple[int, ...]:
        """The first `length` tokens."""
        return tuple(self.tokens[:length])


class AcceptanceRates:
    """Acceptance rates of draft tokens in bins of confidence, weighted to the latest."""

    def __init__(self, prior: Items[float], *, weight: float, memory: float) -> None:
        """The prior counts as `weight` tokens of a bin; tokens older than `memory` fade."""
        self._prior = tuple(prior)
        self._weight = weight
        self._decay = 1 - 1 / memory
        self._right = [0.0] * len(self._prior)
        self._total = [0.0] * len(self._prior)

    def chance(self, bin_index: int, prior: float | None = None) -> float:
        """Return the acceptance probability in this bin; `prior` replaces its own."""
        expected = self._prior[bin_index] if prior is None else prior
        seen = self._total[bin_index] + self._weight
        return (self._right[bin_index] + self._weight * expected) / seen

    def observe(self, bin_index: int, *, right: bool) -> None:
        """Record whether one draft token was accepted."""
        self._right[bin_index] = self._right[bin_index] * self._decay + right
        self._total[bin_index] = self._total[bin_index] * self._decay + 1


class Backoff:
    """Tries something again that did not pay, ever more rarely."""

    def __init__(self, interval: int, longest: int, *, wait: int) -> None:
        """The first try is after `wait` steps; the next intervals double, up to `longest`."""
        self._wait = wait
        self._interval = interval
        self._longest = longest

    def is_due(self, *, only_asks: bool) -> bool:
        """Count a step, and return whether to try in it; with `only_asks` nothing is tried yet."""
        self._wait -= 1
        if self._wait > 0 or only_asks:
            return self._wait <= 0
        self._interval = min(2 * self._interval, self._longest)
        self._wait = self._interval
        return True


class Speculator(Protocol):
    """Proposes drafts for the next step and learns from their acceptance.

    Drafts change nothing but the speed: see `ModelRunner.collect`.
    """

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        """Return drafts for some of the sequences, at most `room` tokens in all."""
        ...

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        """Whether drafts may come that are worth waiting for the in-flight batch."""
        ...

    def observe(self, batch: Batch, seconds: float) -> None:
        """Learn from a completed step that took so many seconds."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """Free the state of a finished sequence."""
        ...
