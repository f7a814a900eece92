"""How often the latest tokens of an answer occurred, for the penalties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as Tokens
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engine.sequence import Sequence

_ROOM = 64


class TokenOccurrences(NamedTuple):
    """Distinct tokens, and how often each occurred; both (n,).

    Read only, and valid until the next call for the same sequence.
    """

    tokens: NDArray[np.int32]
    counts: NDArray[np.int32]


class GeneratedTokenCounts:
    """Counts the last `window` generated tokens of one sequence as it grows (-1: all of them).

    A step costs as much as there are new tokens, however many came before.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._places: dict[int, int] = {}
        self._tokens = np.zeros(_ROOM, np.int32)
        self._counts = np.zeros(_ROOM, np.int32)
        self._begin = 0
        self._end = 0

    def of(self, sequence: Sequence) -> TokenOccurrences:
        """The counts up to the sequence's last token."""
        end = max(0, sequence.num_generated)
        for token in _generated(sequence, self._end, end):
            self._add(token)
        self._end = end
        begin = 0 if self._window < 0 else max(0, end - self._window)
        for token in _generated(sequence, self._begin, begin):
            self._take(token)
        self._begin = max(begin, self._begin)
        count = len(self._places)
        return TokenOccurrences(self._tokens[:count], self._counts[:count])

    def with_awaited(self, sequence: Sequence) -> TokenOccurrences:
        """The counts of what stays in the window when one more token comes."""
        known = self.of(sequence)
        if self._window < 0 or self._end - self._begin < self._window:
            return known
        return self._changed(dict.fromkeys(self._oldest(sequence, 1), -1))

    def with_drafts(self, sequence: Sequence, drafts: Tokens[int]) -> TokenOccurrences:
        """The counts as they are if these tokens come next."""
        known = self.of(sequence)
        if not drafts:
            return known
        changes = Counter(drafts)
        generated = self._end - self._begin
        excess = 0 if self._window < 0 else max(0, generated + len(drafts) - self._window)
        changes.subtract(self._oldest(sequence, min(excess, generated)))
        changes.subtract(drafts[: max(0, excess - generated)])
        return self._changed(changes)

    def _oldest(self, sequence: Sequence, count: int) -> list[int]:
        return _generated(sequence, self._begin, self._begin + count)

    def _changed(self, changes: Mapping[int, int]) -> TokenOccurrences:
        """The counts with some more or fewer; the kept ones stay."""
        count = len(self._places)
        fresh = [token for token in changes if token not in self._places]
        tokens = np.concatenate((self._tokens[:count], np.asarray(fresh, np.int32)))
        counts = np.concatenate((self._counts[:count], np.zeros(len(fresh), np.int32)))
        places = {token: count + i for i, token in enumerate(fresh)}
        for token, change in changes.items():
            counts[self._places.get(token, places.get(token, 0))] += change
        kept = counts > 0
        return TokenOccurrences(tokens[kept], counts[kept])

    def _add(self, token: int) -> None:
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._tokens):
            self._tokens = np.concatenate((self._tokens, np.zeros_like(self._tokens)))
            self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)))
        self._tokens[place] = token
        self._counts[place] += 1

    def _take(self, token: int) -> None:
        place = self._places[token]
        self._counts[place] -= 1
        if not self._counts[place]:  # the last one takes its place
            last = len(self._places) - 1
            self._tokens[place], self._counts[place] = self._tokens[last], self._counts[last]
            self._counts[last] = 0
            self._places[int(self._tokens[last])] = place
            del self._places[token]


def _generated(sequence: Sequence, begin: int, end: int) -> list[int]:
    prompt = sequence.prompt_length
    return sequence.token_ids[prompt + begin : prompt + max(begin, end)]
