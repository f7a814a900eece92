"""Draft lengths: how many draft tokens a step verifies for the most tokens a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .draft import Backoff, Draft
from .step_costs import StepCosts

MARGIN = 1.1
"""What drafts must promise to gain, since the promise rests on estimates."""

_CONSIDERATION = 0.5
"""The share of the delay of sequences without drafts that must be gained in addition."""

_PROMISING = 0.8
_FIRST_WAIT = 64
_LONGEST_WAIT = 4096


class DraftLength:
    """Weighs the tokens a step is expected to yield against the time it will take.

    Verifying costs nearly nothing where a step waits for memory, and as much as the tokens are
    worth where it computes; the measured curve tells which. Because a curve that says "too dear" is
    never measured again, likely drafts are verified against it now and then, ever more rarely.
    """

    def __init__(self, costs: StepCosts) -> None:
        self._costs = costs
        self._backoff = Backoff(_FIRST_WAIT, _LONGEST_WAIT, wait=_FIRST_WAIT)

    def choose(
        self,
        decoding: int,
        drafts: Sequence[Draft],
        room: int,
        allowances: Sequence[float],
        *,
        only_asks: bool = False,
    ) -> list[int]:
        """How much of each draft to verify beside `decoding` sequences, 0 where it does not pay.

        At most `room` tokens in all. No draft may be expected to lose more than its allowance, in
        units of what a token of one sequence takes without drafts. With `only_asks` nothing is
        verified yet.
        """
        ranked = [(c, i) for i, draft in enumerate(drafts) for c in draft.chances]
        ranked.sort(key=lambda entry: -entry[0])  # stable: a draft's tokens stay in their order
        order = [index for _, index in ranked]
        plain = self._costs.seconds(decoding) / decoding
        gains: list[tuple[float, int]] = []
        expected = float(decoding)
        for count, (chance, _) in enumerate(ranked[:room], 1):
            expected += chance
            gains.append((expected / self._costs.seconds(decoding + count) * plain, count))
        gains.sort(reverse=True)
        if not gains or (
            gains[0][0] < MARGIN and not self._tries(gains[0][0], ranked[0][0], only_asks=only_asks)
        ):
            return [0] * len(drafts)
        least = min(gains[0][0], MARGIN)
        for gain, count in gains:
            if gain < least:
                break
            lengths = [order[:count].count(index) for index in range(len(drafts))]
            slower = self._costs.seconds(decoding + count) / (plain * decoding) - 1
            others = 1 - sum(map(bool, lengths)) / decoding
            if gain < least + _CONSIDERATION * others * slower:
                continue
            if _is_bearable(drafts, lengths, slower * decoding / count, allowances):
                return lengths
        return [0] * len(drafts)

    def choose_depth(
        self,
        decoding: int,
        chances: Sequence[float],
        room: int,
        drafting: Callable[[int], float],
    ) -> tuple[int, float]:
        """How many tokens a model should draft for sequences with these chances a token.

        `drafting` returns the seconds to draft so many tokens for each. Returns the depth, 0
        where it does not pay, and how many times as fast as without the step is expected to be.
        """
        plain = self._costs.seconds(decoding) / decoding
        best, best_gain = 0, MARGIN
        expected = float(decoding)
        for depth in range(1, room // max(len(chances), 1) + 1):
            expected += sum(chance**depth for chance in chances)
            seconds = self._costs.seconds(decoding + depth * len(chances)) + drafting(depth)
            gain = expected / seconds * plain
            if gain > best_gain:
                best, best_gain = depth, gain
        return best, best_gain if best else 1.0

    def _tries(self, gain: float, chance: float, *, only_asks: bool) -> bool:
        """Whether to check the curve with a draft of this chance, which costs little."""
        if chance < _PROMISING or gain < _PROMISING:
            return False
        return self._backoff.is_due(only_asks=only_asks)


def _is_bearable(
    drafts: Sequence[Draft], lengths: list[int], cost: float, allowances: Sequence[float]
) -> bool:
    """Whether no draft is expected to lose more than it may, at this cost a verified token.

    What is lost counts alone here, since it does not get better by what might as well be won.
    """
    for draft, length, allowance in zip(drafts, lengths, allowances, strict=True):
        loss, reached = 0.0, 1.0
        for right, chance in enumerate([*draft.chances[:length], 0.0]):
            loss += (reached - chance) * max(0.0, cost * length - right)
            reached = chance
        if loss > allowance:
            return False
    return True
