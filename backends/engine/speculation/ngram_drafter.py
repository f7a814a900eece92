"""Draft tokens by n-gram look-up: what followed the same tokens before, in prompt or answer."""

from __future__ import annotations

import numpy as np

from ..sequence import Sequence
from .draft import AcceptanceRates, Draft

_SIZES = (4, 3, 2)
_MULTIPLIERS = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F)
_MIX = 15
_SMALLEST_TABLE = 2**10
_LARGEST_TABLE = 2**17
_LONGEST_MATCH = 32
_STICKY = 4
"""A match as long as the longest n-gram is kept, although its n-grams also occur later."""
_HOPELESS = 0.05

_BINS = (0, 0, 0, 1, 2, 3, 3, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6) + (7,) * 8 + (8,) * 8
"""Bin of each length of a match, 0 to `_LONGEST_MATCH`."""
_PRIOR = (0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.82, 0.88, 0.93)


class NgramDrafter:
    """Prompt lookup: drafts what followed the latest earlier occurrence of the last few tokens.

    It needs no model and no trial: every sampled token is compared with the prediction for it,
    drafted or not, so that acceptance rates are known before the first draft is verified. The
    longer the match, the likelier its continuation.
    """

    def __init__(self, context: int) -> None:
        """`context` is how long sequences can get; it bounds the memory of each one's index."""
        self._table_size = _SMALLEST_TABLE
        while self._table_size < min(context, _LARGEST_TABLE):
            self._table_size *= 2
        self._rates = AcceptanceRates(_PRIOR, weight=20, memory=500)
        self._histories: dict[Sequence, _History] = {}

    def propose(self, sequence: Sequence, most: int) -> Draft:
        """Up to `most` draft tokens; none if no n-gram is repeated."""
        history = self._histories.get(sequence)
        if history is None:
            history = _History(sequence, self._table_size, self._rates)
            self._histories[sequence] = history
        history.advance()
        return history.draft(most)

    def forget(self, sequence: Sequence) -> None:
        """Free the index of a sequence that ended."""
        self._histories.pop(sequence, None)


class _History:
    """One sequence's tokens, an index of their n-grams, and the place the text is copied from.

    The index is a hash table that forgets what collides, so its size is fixed; what is found in it
    is compared with the tokens. `_source` is the position of the token that is drafted next, after
    `_match` tokens that equal the sequence's last ones.
    """

    def __init__(self, sequence: Sequence, table_size: int, everywhere: AcceptanceRates) -> None:
        self._tokens = sequence.token_ids
        self._mask = table_size - 1
        self._tables = [np.zeros(table_size, np.int32) for _ in _SIZES]
        self._everywhere = everywhere
        self._here = AcceptanceRates((0.0, 0.0), weight=8, memory=40)
        self._source = 0
        self._match = 0
        self._known = 0
        self._index_prompt()

    def advance(self) -> None:
        """Process the tokens that were sampled since."""
        tokens = self._tokens
        while self._known < len(tokens):
            self._compare(tokens[self._known])
            self._known += 1
            self._look_up()

    def draft(self, most: int) -> Draft:
        """The tokens from the source on, then those of the draft itself."""
        draft = Draft()
        if not self._source:
            return draft
        tokens, chance = self._tokens, 1.0
        period = len(tokens) - self._source
        for offset in range(most):
            chance *= self._chance(self._match + offset)
            if chance < _HOPELESS:
                break
            token = tokens[self._source + offset] if offset < period else draft.tokens[-period]
            draft.tokens.append(token)
            draft.chances.append(chance)
        return draft

    def _chance(self, match: int) -> float:
        """The probability that the token after a match of this length is accepted.

        What other texts showed may lower expectations, not raise them: edits say nothing of
        stories. What this one showed, with long matches or with short ones, counts soon.
        """
        place = _bin(match)
        usual = min(self._everywhere.chance(place), _PRIOR[place])
        return self._here.chance(match >= _STICKY, usual)

    def _compare(self, token: int) -> None:
        """Learn whether the prediction of this token was right."""
        if not self._source:
            return
        right = self._tokens[self._source] == token
        self._everywhere.observe(_bin(self._match), right=right)
        self._here.observe(self._match >= _STICKY, right=right)
        if right:
            self._source += 1
            self._match = min(self._match + 1, _LONGEST_MATCH)
        else:
            self._source = self._match = 0

    def _look_up(self) -> None:
        """Find where the last tokens stood before, unless a long match goes on, and index them."""
        end, found = self._known, 0
        for size, table in zip(_SIZES, self._tables, strict=True):
            if end < size:
                continue
            place = _hash(self._tokens, end, size) & self._mask
            if not found and self._match < _STICKY:
                found = self._verified(int(table[place]), size)
            table[place] = end
        if found:
            self._source, self._match = found, self._length_of_match(found)

    def _verified(self, candidate: int, size: int) -> int:
        tokens, end = self._tokens, self._known
        if candidate and tokens[candidate - size : candidate] == tokens[end - size : end]:
            return candidate
        return 0

    def _length_of_match(self, source: int) -> int:
        tokens, end = self._tokens, self._known
        length = 0
        while (
            length < min(source, _LONGEST_MATCH)
            and tokens[source - 1 - length] == tokens[end - 1 - length]
        ):
            length += 1
        return length

    def _index_prompt(self) -> None:
        """Index all tokens but the last at once; later ones are looked up one by one."""
        end = max(len(self._tokens) - 1, 0)
        array = np.asarray(self._tokens[:end], np.int64)
        for size, table in zip(_SIZES, self._tables, strict=True):
            if end < size:
                continue
            mixed = np.zeros(end - size + 1, np.int64)
            for offset in range(size):
                mixed += array[offset : end - size + 1 + offset] * _MULTIPLIERS[offset]
            # Of several assignments to one place, numpy keeps the last.
            table[(mixed ^ (mixed >> _MIX)) & self._mask] = np.arange(size, end + 1)
        self._known = end


def _hash(tokens: list[int], end: int, size: int) -> int:
    mixed = 0
    for offset in range(size):
        mixed += tokens[end - size + offset] * _MULTIPLIERS[offset]
    return mixed ^ (mixed >> _MIX)


def _bin(match: int) -> int:
    return _BINS[min(match, _LONGEST_MATCH)]
