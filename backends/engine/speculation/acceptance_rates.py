"""How often guesses of one kind turned out right."""

from __future__ import annotations

from collections.abc import Sequence


class AcceptanceRates:
    """Hit rates of guesses, sorted into bins by how sure they look, the latest counting most."""

    def __init__(self, prior: Sequence[float], *, weight: float, memory: float) -> None:
        """The prior counts as `weight` guesses of a bin; older ones than `memory` fade away."""
        self._prior = tuple(prior)
        self._weight = weight
        self._decay = 1 - 1 / memory
        self._right = [0.0] * len(self._prior)
        self._total = [0.0] * len(self._prior)

    def chance(self, bin_index: int, prior: float | None = None) -> float:
        """The probability that the next guess of this bin is right; `prior` replaces its own."""
        expected = self._prior[bin_index] if prior is None else prior
        seen = self._total[bin_index] + self._weight
        return (self._right[bin_index] + self._weight * expected) / seen

    def observe(self, bin_index: int, *, right: bool) -> None:
        """Learn what became of one guess."""
        self._right[bin_index] = self._right[bin_index] * self._decay + right
        self._total[bin_index] = self._total[bin_index] * self._decay + 1
