"""Acceptance rates of draft tokens, by confidence."""

from __future__ import annotations

from collections.abc import Sequence


class AcceptanceRates:
    """Acceptance rates of draft tokens in bins of confidence, weighted to the latest."""

    def __init__(self, prior: Sequence[float], *, weight: float, memory: float) -> None:
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
