"""How often the latest tokens of an answer were said, for the penalties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Tokens

from ..engine.sequence import Sequence


class TokenCounts:
    """Counts the last `window` generated tokens of one sequence as it grows (-1: all of them)."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._counts: Counter[int] = Counter()
        self._begin = 0
        self._end = 0

    def of(self, sequence: Sequence) -> Counter[int]:
        """The counts up to the sequence's last token; not to be changed."""
        end = sequence.num_generated
        for place in range(self._end, end):
            self._counts[sequence.token_ids[sequence.prompt_length + place]] += 1
        self._end = end
        begin = 0 if self._window < 0 else max(0, end - self._window)
        for place in range(self._begin, begin):
            _take(self._counts, sequence.token_ids[sequence.prompt_length + place])
        self._begin = begin
        return self._counts

    def with_awaited(self, sequence: Sequence) -> Counter[int]:
        """The counts of what stays in the window when one more token comes; not to be changed."""
        counts = self.of(sequence)
        if self._window < 0 or self._end - self._begin < self._window:
            return counts
        counts = counts.copy()
        _take(counts, sequence.token_ids[sequence.prompt_length + self._begin])
        return counts

    def with_drafts(self, sequence: Sequence, drafts: Tokens[int]) -> Counter[int]:
        """The counts as they are if these tokens come next; not to be changed."""
        if not drafts:
            return self.of(sequence)
        counts = self.of(sequence).copy()
        counts.update(drafts)
        excess = 0 if self._window < 0 else self._end + len(drafts) - self._window - self._begin
        generated = self._end - self._begin
        for offset in range(max(0, excess)):
            if offset < generated:
                place = sequence.prompt_length + self._begin + offset
                _take(counts, sequence.token_ids[place])
            else:
                _take(counts, drafts[offset - generated])
        return counts


def _take(counts: Counter[int], token: int) -> None:
    counts[token] -= 1
    if not counts[token]:
        del counts[token]
